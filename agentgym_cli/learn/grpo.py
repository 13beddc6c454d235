"""Group relative policy optimization.

DeepSeekMath, arXiv 2402.03300, section 4.1, in the outcome-supervised form that ScalingInter-RL (arXiv 2509.08755) uses over whole episodes:

    A_i = (r_i - mean(r)) / (std(r) + 1e-6)      over the scored members of a group, std unbiased
    L   = - sum_t min(w_t A, clip(w_t, 1 - e, 1 + e) A) / N  +  beta * k3  -  gamma * H

with w_t the ratio of new to sampled probability, N the action tokens of the whole minibatch, k3 the estimate of KL from the frozen reference and
H the entropy, each averaged over the same tokens. ``average: episode`` (the paper's 1/|o_i|) takes the
surrogate's mean over each episode's tokens first; k3 and H stay means over all tokens.

Assumes one return per episode, the same advantage for all its action tokens, and no discount. A member whose world failed has no return: it is
neither in the baseline nor in the gradient. A group without spread gives no gradient but for the two last terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.advantages import group_advantages
from agentgym_cli.learn.batch import Example, with_action_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One planned episode of a group, as learning sees it."""

    reward: float | None
    """Return; None when the episode has none (infra error or missing)."""
    trajectory: Trajectory | None
    """None when there is none; only a scored member's is used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExamples:
    """What a step's groups give to learn from, and what was left out and why."""

    examples: tuple[Example, ...]
    rewards: tuple[float, ...]
    """Returns of all scored members."""
    planned: int
    groups: int
    groups_dropped: int
    groups_zero_variance: int
    without_action_tokens: int


def group_examples(groups: Sequence[Sequence[Member]], *, normalize_std: bool, step: int) -> GroupExamples:
    """Examples of all scored members of groups that are kept. Raises TrainerError on a return that is no finite number."""
    examples: list[Example] = []
    dropped = zero_variance = scored_members = 0
    for members in groups:
        found = group_advantages([_finite(member.reward, step) for member in members], normalize_std=normalize_std)
        dropped += found.dropped
        zero_variance += found.zero_variance
        for member, advantage in zip(members, found.values, strict=True):
            if advantage is not None:
                scored_members += 1
                if member.trajectory is not None:
                    examples.append(Example(trajectory=member.trajectory, advantage=advantage))
    kept = with_action_tokens(examples)
    return GroupExamples(
        examples=tuple(kept),
        rewards=tuple(member.reward for members in groups for member in members if member.reward is not None),
        planned=sum(map(len, groups)),
        groups=len(groups),
        groups_dropped=dropped,
        groups_zero_variance=zero_variance,
        without_action_tokens=scored_members - len(kept),
    )


def by_episode(examples: Sequence[Example]) -> list[Example]:
    """Advantages scaled so that the mean over all action tokens is the mean over episodes of the mean over each one's action tokens.

    Clipping commutes with a positive factor. Failures are long and successes short: over tokens alone, the push away from what failed outweighs
    the pull to what succeeded, and everything common to both is unlearned.
    """
    counts = [sum(example.trajectory.action_mask[1:]) for example in examples]
    mean = sum(counts) / len(counts) if counts else 0.0
    return [replace(example, advantage=example.advantage * mean / count) for example, count in zip(examples, counts, strict=True)]


def _finite(reward: float | None, step: int) -> float | None:
    if reward is not None and not math.isfinite(reward):
        raise TrainerError(f"step {step}: expected finite returns, got {reward}", hint="agentgym probe RECIPE checks what the world answers")
    return reward
