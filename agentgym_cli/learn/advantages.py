"""Advantages, in numbers: of the members of a group, and of the action tokens of an episode. No tensors, no tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

EPSILON = 1e-6
"""Added to a standard deviation, as in the released settings."""


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


def leave_one_out(rewards: Sequence[float | None]) -> GroupAdvantages:
    """r minus the mean of the other scored members, which is (r - mean) n / (n - 1). Arguments as in ``group_advantages``."""
    centred = group_advantages(rewards, normalize_std=False)
    if centred.dropped:
        return centred
    factor = centred.scored / (centred.scored - 1)
    values = tuple(None if value is None else value * factor for value in centred.values)
    return GroupAdvantages(values=values, scored=centred.scored, dropped=False, zero_variance=centred.zero_variance)


def returns_to_go(rewards: Sequence[float], *, discount: float) -> list[float]:
    """G_t = r_t + discount * G_(t + 1) over the action tokens of one episode."""
    total, found = 0.0, []
    for reward in reversed(rewards):
        total = reward + discount * total
        found.append(total)
    return found[::-1]


def generalized_advantages(rewards: Sequence[float], values: Sequence[float], *, discount: float, gae_lambda: float) -> list[float]:
    """A_t = d_t + discount * lambda * A_(t + 1) with d_t = r_t + discount * V_(t + 1) - V_t; the value behind the last action token is 0.

    Source: arXiv 1506.02438, equations 11 and 16. Both arguments are over the action tokens of one episode, equally many: what lies between two of
    them (an observation) is one step of the world, whatever its length.
    """
    advantage, after, found = 0.0, 0.0, []
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + discount * after - value + discount * gae_lambda * advantage
        after = value
        found.append(advantage)
    return found[::-1]


def whitened(episodes: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    """(A - mean) / (std + 1e-6) over all numbers of all episodes together, std unbiased; all 0 where they are all equal."""
    every = [value for episode in episodes for value in episode]
    if not every or min(every) == max(every):
        return [(0.0,) * len(episode) for episode in episodes]
    mean = math.fsum(every) / len(every)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in every) / (len(every) - 1))
    return [tuple((value - mean) / (std + EPSILON) for value in episode) for episode in episodes]
