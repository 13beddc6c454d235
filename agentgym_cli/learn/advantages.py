"""Advantages of the members of a group. Numbers in, numbers out: no tensors, no tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

EPSILON = 1e-6
"""Added to the standard deviation, as in the released settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAdvantages:
    """One number for each planned member of a group; None where the member takes no part."""

    values: tuple[float | None, ...]
    scored: int
    dropped: bool
    """Too few scored members for a baseline; nothing of the group is learned from."""
    zero_variance: bool
    """All scored members have the same reward: every advantage is 0."""


def least_scored(group_size: int) -> int:
    """Scored members below which a group is dropped: max(2, G/2), G/2 rounded up."""
    return max(2, -(-group_size // 2))


def group_advantages(rewards: Sequence[float | None], *, normalize_std: bool) -> GroupAdvantages:
    """(r - mean) / (std + 1e-6) over the scored members; std is unbiased (divides by n - 1). Without ``normalize_std``: r - mean.

    Args:
        rewards: returns of all planned members; None is a member without a score, which enters neither mean nor std.
    """
    scored = [reward for reward in rewards if reward is not None]
    if len(scored) < least_scored(len(rewards)):
        return GroupAdvantages(values=(None,) * len(rewards), scored=len(scored), dropped=True, zero_variance=False)
    if min(scored) == max(scored):
        values = tuple(None if reward is None else 0.0 for reward in rewards)
        return GroupAdvantages(values=values, scored=len(scored), dropped=False, zero_variance=True)
    mean = math.fsum(scored) / len(scored)
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in scored) / (len(scored) - 1))
    scale = std + EPSILON if normalize_std else 1.0
    values = tuple(None if reward is None else (reward - mean) / scale for reward in rewards)
    return GroupAdvantages(values=values, scored=len(scored), dropped=False, zero_variance=False)
