"""The numbers of each algorithm. Which engine has which is said in ``recipe/features.py``, what excludes what in ``algorithm_rules.py``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, Positive, Share, section
from agentgym_cli.recipe.schema.stored import DemonstrationSource, PairSource

Clip = Annotated[float, Field(gt=0, lt=1)]
HighClip = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
GroupSize = Annotated[int, Field(ge=2)]
Average = Literal["episode", "token"]
KlPlace = Literal["loss", "reward"]
KlEstimate = Literal["k1", "k2", "k3"]


@section
class GrpoSpec:
    """Group relative policy optimization (arXiv 2402.03300): an episode against the mean of its group."""

    kind: Literal["grpo"] = "grpo"
    group_size: GroupSize
    """Episodes of one task drawn together; one alone has no baseline but itself."""
    normalize_std: bool = True
    """Divide by the group's standard deviation; false is the form of Dr. GRPO (arXiv 2503.20783)."""
    filter_zero_variance: bool = False
    """Leave groups whose rewards are all equal out of every mean (arXiv 2503.14476, section 3.2, without drawing others in their place); they
    have no advantage either way, and false lets them count in the average, in the KL term and in the entropy."""
    average: Average = "episode"
    """``episode`` weighs every episode alike, as the paper and AgentGym-RL's scripts do; ``token`` every action token, so that long episodes,
    mostly failures, weigh more."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    clip_high: HighClip | None = None
    """How far the ratio may rise (clip-higher, arXiv 2503.14476, section 3.1), ``clip`` then saying how far it may fall; None is ``clip``."""
    kl_coefficient: Weight = 0.0
    """Weight of the KL divergence from the frozen warm-start policy; 0 keeps no reference."""
    kl_place: KlPlace = "loss"
    """``loss`` adds it to the loss; ``reward`` takes it off what is paid, over the tokens that were sampled, before any baseline."""
    kl_estimate: KlEstimate = "k3"
    """How it is estimated of a sampled token, with d the log-probability of the reference minus the policy's: k1 is -d, k2 is d * d / 2, k3 is
    exp(d) - d - 1. As a loss, k1 has no gradient on average."""
    entropy_coefficient: Weight = 0.0
    """Weight of the entropy bonus over action tokens."""


@section
class RlooSpec:
    """REINFORCE with a leave-one-out baseline (arXiv 2402.14740): an episode against the mean of the others of its group."""

    kind: Literal["rloo"] = "rloo"
    group_size: GroupSize
    """Episodes of one task drawn together; one alone has no others."""
    average: Average = "episode"
    """As for GRPO."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    clip_high: HighClip | None = None
    """How far the ratio may rise; None is ``clip``."""
    kl_coefficient: Weight = 0.0
    """Weight of the KL divergence from the frozen warm-start policy; 0 keeps no reference."""
    kl_place: KlPlace = "loss"
    """``loss`` or ``reward``, as for GRPO; the paper's is ``reward`` with estimate k1."""
    kl_estimate: KlEstimate = "k3"
    """As for GRPO."""
    entropy_coefficient: Weight = 0.0
    """Weight of the entropy bonus over action tokens."""


@section
class ReinforcePlusPlusSpec:
    """REINFORCE++ (arXiv 2501.03262): no critic, advantages whitened over the whole batch."""

    kind: Literal["reinforce_plus_plus"] = "reinforce_plus_plus"
    group_size: Count = 1
    """Episodes of one task drawn together; they share no baseline but the one below."""
    baseline: Literal["none", "group"] = "none"
    """``group`` takes the mean of its group off an episode's return before whitening, so groups need two members or more."""
    discount: Share = 1.0
    """Discount from one action token to the next; 1 with a group's baseline, which knows whole episodes only."""
    average: Average = "token"
    """As for GRPO."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    clip_high: HighClip | None = None
    """How far the ratio may rise; None is ``clip``."""
    kl_coefficient: Weight = 0.0
    """Weight of the KL divergence from the frozen warm-start policy; 0 keeps no reference."""
    kl_place: KlPlace = "reward"
    """``reward`` takes it off the reward of each token, as the paper does; ``loss`` adds it to the loss."""
    kl_estimate: KlEstimate = "k1"
    """As for GRPO."""
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
    whiten: bool = True
    """Bring the advantages of a step to mean 0 and standard deviation 1 over its action tokens."""
    critic_learning_rate: Positive
    """Of the critic's AdamW, constant."""
    critic_weight_decay: Weight = 0.0
    """Of the critic's AdamW."""
    critic_max_gradient_norm: Positive = 1.0
    """The critic's gradients are scaled down to this norm, in one update."""
    critic_warmup_steps: Annotated[int, Field(ge=0)] = 0
    """First steps in which the critic alone is updated."""
    value_clip: HighClip | None = 0.2
    """Half-width of the trust region on the value, in units of what is paid; None has none."""
    average: Average = "token"
    """As for GRPO."""
    clip: Clip = 0.2
    """Half-width of the trust region on the probability ratio."""
    clip_high: HighClip | None = None
    """How far the ratio may rise; None is ``clip``."""
    kl_coefficient: Weight = 0.0
    """Weight of the KL divergence from the frozen warm-start policy; 0 keeps no reference."""
    kl_place: KlPlace = "loss"
    """``loss`` adds it to the loss; ``reward`` takes it off the reward of each token."""
    kl_estimate: KlEstimate = "k3"
    """As for GRPO."""
    entropy_coefficient: Weight = 0.0
    """Weight of the entropy bonus over action tokens."""


@section
class SftSpec:
    """Supervised learning on demonstrations, action tokens alone. ``train.tasks_per_step`` is how many make one update."""

    kind: Literal["sft"] = "sft"
    demonstrations: Annotated[tuple[DemonstrationSource, ...], Field(min_length=1)]
    """Where they come from. Those of more turns than ``horizon`` allows at step 1 are left out and counted."""
    group_size: ClassVar[int] = 1
    kl_coefficient: ClassVar[float] = 0.0


@section
class DpoSpec:
    """Direct preference optimization (arXiv 2305.18290) on pairs of episodes of one task. ``train.tasks_per_step`` pairs make one update."""

    kind: Literal["dpo"] = "dpo"
    pairs: Annotated[tuple[PairSource, ...], Field(min_length=1)]
    """Where they come from."""
    beta: Positive = 0.1
    """Factor on how much more probable than under the reference, the policy before the first step, an episode's tokens have become."""
    margin: Positive | None = None
    """Least difference in return of the two episodes of a pair; None pairs a success with a failure. Pairs of a file are taken as they are."""
    pairs_per_task: Count = 4
    """Most pairs of one task of one source."""
    group_size: ClassVar[int] = 1
    kl_coefficient: ClassVar[float] = 0.0


@section
class AgentEvolSpec:
    """AgentEvol (arXiv 2406.04151): explore with the present policy, keep what went well, learn it beside the demonstrations, repeat."""

    kind: Literal["agentevol"] = "agentevol"
    demonstrations: Annotated[tuple[DemonstrationSource, ...], Field(min_length=1)]
    """The original demonstrations, which every iteration learns again."""
    iteration_steps: Count
    """Updates of one iteration, behind its exploration; the last iteration may have fewer."""
    explored_tasks: Count
    """Tasks of the training split that one iteration explores."""
    samples_per_task: Count = 1
    """Episodes of each explored task."""
    keep_at_least: float | None = None
    """Least return of an explored episode that is learned; None keeps the successes."""
    group_size: ClassVar[int] = 1
    kl_coefficient: ClassVar[float] = 0.0


OnlineSpec = GrpoSpec | RlooSpec | ReinforcePlusPlusSpec | PpoSpec
"""Algorithms whose every step plays the episodes that it learns from."""
AlgorithmSpec = Annotated[OnlineSpec | SftSpec | DpoSpec | AgentEvolSpec, Field(discriminator="kind")]
