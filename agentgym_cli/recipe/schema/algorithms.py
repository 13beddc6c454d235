"""The numbers of each online algorithm. Which engine has which algorithm is said in ``recipe/features.py``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, Positive, Share, section

Clip = Annotated[float, Field(gt=0, lt=1)]
Weight = Annotated[float, Field(ge=0)]
GroupSize = Annotated[int, Field(ge=2)]


@section
class GrpoSpec:
    """Group relative policy optimization (arXiv 2402.03300): an episode against the mean of its group."""

    kind: Literal["grpo"] = "grpo"
    group_size: GroupSize
    """Episodes of one task drawn together; one alone has no baseline but itself."""
    normalize_std: bool = True
    """Divide by the group's standard deviation."""
    average: Literal["episode", "token"] = "episode"
    """``episode`` weighs every episode alike, as the paper and AgentGym-RL's scripts do; ``token`` every action token, so that long episodes,
    mostly failures, weigh more."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    kl_coefficient: Weight = 0.0
    """Weight of the k3 estimate of the KL divergence from the frozen warm-start policy; 0 keeps no reference."""
    entropy_coefficient: Weight = 0.0
    """Weight of the entropy bonus over action tokens."""


@section
class RlooSpec:
    """REINFORCE with a leave-one-out baseline (arXiv 2402.14740): an episode against the mean of the others of its group."""

    kind: Literal["rloo"] = "rloo"
    group_size: GroupSize
    """Episodes of one task drawn together; one alone has no others."""
    average: Literal["episode", "token"] = "episode"
    """As for GRPO."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    kl_coefficient: Weight = 0.0
    """Weight of the KL divergence from the frozen warm-start policy, in the loss; 0 keeps no reference."""
    entropy_coefficient: Weight = 0.0
    """Weight of the entropy bonus over action tokens."""


@section
class ReinforcePlusPlusSpec:
    """REINFORCE++ (arXiv 2501.03262): no critic, advantages whitened over the whole batch."""

    kind: Literal["reinforce_plus_plus"] = "reinforce_plus_plus"
    group_size: Count = 1
    """Episodes of one task drawn together; they share no baseline."""
    discount: Share = 1.0
    """Discount from one action token to the next."""
    average: Literal["episode", "token"] = "token"
    """As for GRPO."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    kl_coefficient: Weight = 0.0
    """Weight of the KL divergence from the frozen warm-start policy, taken off the reward of each token; 0 keeps no reference."""
    entropy_coefficient: Weight = 0.0
    """Weight of the entropy bonus over action tokens."""


@section
class PpoSpec:
    """Proximal policy optimization (arXiv 1707.06347) with a critic and generalized advantages over action tokens (arXiv 1506.02438)."""

    kind: Literal["ppo"] = "ppo"
    group_size: Count = 1
    """Episodes of one task drawn together; the critic is the baseline."""
    discount: Share = 1.0
    """Discount (gamma) from one action token to the next."""
    gae_lambda: Share = 1.0
    """Weight of longer returns; 1 is the return itself, 0 one step and then the critic."""
    critic_learning_rate: Positive
    """Of the critic's AdamW, constant."""
    critic_warmup_steps: Annotated[int, Field(ge=0)] = 0
    """First steps in which the critic alone is updated."""
    value_clip: Clip | None = 0.2
    """Half-width of the trust region on the value; None has none."""
    average: Literal["episode", "token"] = "token"
    """As for GRPO."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    kl_coefficient: Weight = 0.0
    """Weight of the k3 estimate of the KL divergence from the frozen warm-start policy; 0 keeps no reference."""
    entropy_coefficient: Weight = 0.0
    """Weight of the entropy bonus over action tokens."""


AlgorithmSpec = Annotated[GrpoSpec | RlooSpec | ReinforcePlusPlusSpec | PpoSpec, Field(discriminator="kind")]
