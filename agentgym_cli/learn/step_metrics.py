"""What one step of online learning did, in numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentgym_cli.learn.batch import Example, action_count
from agentgym_cli.learn.critic import CriticUpdate
from agentgym_cli.learn.gather import Gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What one step did. None is no data, never 0."""

    reward_mean: float | None
    """Over scored members, costs taken off."""
    planned: int
    scored: int
    groups: int
    groups_dropped: int
    groups_zero_variance: int | None
    """None where groups have no baseline."""
    without_action_tokens: int
    action_tokens: int
    """Of all trajectories that count, those without an advantage included."""
    updates: int
    """Of the policy."""
    loss: float | None
    """Mean of the updates."""
    gradient_norm: float | None
    """Largest of the updates, before clipping."""
    clip_fraction: float | None
    """Share of action tokens whose ratio the clip held back."""
    sampled_kl: float | None
    """k1 estimate of KL(sampled, present policy) over the step, nats per action token."""
    entropy: float | None
    """Nats per action token that was computed."""
    reference_kl: float | None
    """The recipe's estimate, nats per action token; None without a reference."""
    logprob_difference: float | None
    """Largest |trainer - sampler| log-probability over the action tokens of the first minibatch, before its update."""
    importance_weight: float | None
    """Mean weight of an action token; None without the correction."""
    critic_loss: float | None
    """Half the squared error per action token, mean of the critic's updates; None without a critic."""
    critic_gradient_norm: float | None
    """Largest of the critic's updates, before clipping."""
    explained_variance: float | None
    """Of the critic's targets by its values before the step, over action tokens; None without a critic, or where all targets are equal."""


@dataclass(slots=True)
class Sums:
    """What a step adds up over its pieces."""

    tokens: int = 0
    clipped: float = 0.0
    old_minus_new: float = 0.0
    entropy: float = 0.0
    reference: float = 0.0
    weight: float = 0.0
    difference: float | None = None
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    critic: list[CriticUpdate] = field(default_factory=list)

    def per_token(self, value: float) -> float | None:
        """A sum over pieces as a mean over their action tokens."""
        return value / self.tokens if self.tokens else None


def step_metrics(found: Gathered, sums: Sums, *, reference: bool, corrected: bool) -> StepMetrics:
    """Everything a step has to report."""
    kl = sums.per_token(sums.reference) if reference else None
    return StepMetrics(
        reward_mean=sum(found.rewards) / len(found.rewards) if found.rewards else None,
        planned=found.planned,
        scored=len(found.rewards),
        groups=found.groups,
        groups_dropped=found.groups_dropped,
        groups_zero_variance=found.groups_zero_variance,
        without_action_tokens=found.without_action_tokens,
        action_tokens=sum(map(action_count, found.examples)),
        updates=len(sums.losses),
        loss=sum(sums.losses) / len(sums.losses) if sums.losses else None,
        gradient_norm=max(sums.norms, default=None),
        clip_fraction=sums.per_token(sums.clipped),
        sampled_kl=sums.per_token(sums.old_minus_new),
        entropy=sums.per_token(sums.entropy),
        reference_kl=found.kl if found.kl is not None else kl,
        logprob_difference=sums.difference,
        importance_weight=sums.per_token(sums.weight) if corrected else None,
        critic_loss=sum(each.made.loss for each in sums.critic) / len(sums.critic) if sums.critic else None,
        critic_gradient_norm=max((each.made.gradient_norm for each in sums.critic), default=None),
        explained_variance=_explained(found.examples),
    )


def _explained(examples: Sequence[Example]) -> float | None:
    """1 - Var(target - value) / Var(target) over action tokens."""
    targets = [each for example in examples for each in example.targets or ()]
    values = [each for example in examples for each in example.values or ()]
    if not targets or min(targets) == max(targets):
        return None
    return 1.0 - _variance([wanted - value for wanted, value in zip(targets, values, strict=True)]) / _variance(targets)


def _variance(numbers: Sequence[float]) -> float:
    mean = math.fsum(numbers) / len(numbers)
    return math.fsum((each - mean) ** 2 for each in numbers) / len(numbers)
