"""What learning is paid in: the environment's return, or success alone, less what turns cost; and on which tokens it lands. Knows no tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Literal

from agentgym_cli.episode.types import AttemptResult, Outcome, Turn
from agentgym_cli.learn.experience import Member, PerToken, action_places
from agentgym_cli.recipe.schema.algorithms import KlEstimate
from agentgym_cli.recipe.schema.world import RewardSpec

RewardKind = Literal["terminal", "per_step", "cumulative"]
"""How a world's rewards add up to its return, by its dialect: the last one, their sum, the last one (already a sum)."""


def signal_of(spec: RewardSpec, *, reward: float | None, success: bool) -> float | None:
    """The learning signal of an episode.

    Args:
        reward: return by the dialect's rule; None when the episode has none (infra error or missing), which stays None: it is never a number.
        success: whether it counts as a success.
    """
    if reward is None:
        return None
    return spec.scale * (reward if spec.signal == "return" else float(success))


def member_of(spec: RewardSpec, result: AttemptResult, kind: RewardKind) -> Member:
    """An attempt as learning sees it: what it is paid, costs taken off, and where that lands."""
    signal = signal_of(spec, reward=result.reward, success=result.outcome is Outcome.SUCCESS)
    if signal is None:
        return Member(reward=None, trajectory=result.trajectory)
    costs = [_cost(spec, turn) for turn in result.turns]
    total = signal - sum(costs) if any(costs) else signal
    if spec.credit == "episode" or result.trajectory is None or not action_places(result.trajectory):
        return Member(reward=total, trajectory=result.trajectory)
    paid = [earned - cost for earned, cost in zip(_earned(spec, result, signal, kind), costs, strict=True)]
    ends = _turn_ends(action_places(result.trajectory), [turn.response_tokens for turn in result.turns])
    return Member(reward=total, trajectory=result.trajectory, payments=tuple(zip(ends, paid, strict=True)))


def less_kl(paid: PerToken, policy: PerToken, reference: PerToken, *, coefficient: float, estimate: KlEstimate) -> PerToken:
    """Rewards of action tokens with ``coefficient`` times an estimate of KL(policy, reference) taken off each; see ``losses.reference_kl``."""
    return tuple(reward - coefficient * each for reward, each in zip(paid, token_kl(policy, reference, estimate=estimate), strict=True))


def token_kl(policy: PerToken, reference: PerToken, *, estimate: KlEstimate) -> PerToken:
    """The estimate of each action token, nats; arguments are log-probabilities of the same tokens."""
    differences = [there - here for here, there in zip(policy, reference, strict=True)]
    if estimate == "k1":
        return tuple(-each for each in differences)
    return tuple(each * each / 2 if estimate == "k2" else math.expm1(each) - each for each in differences)


def _cost(spec: RewardSpec, turn: Turn) -> float:
    return spec.turn_cost + spec.token_cost * turn.response_tokens + (0.0 if turn.valid else spec.invalid_cost)


def _earned(spec: RewardSpec, result: AttemptResult, signal: float, kind: RewardKind) -> list[float]:
    """What each turn earned, before costs; adds up to ``signal``."""
    if not result.turns:
        return []
    if spec.signal == "success" or kind == "terminal":
        return [*[0.0] * (len(result.turns) - 1), signal]
    rewards = [turn.reward for turn in result.turns]
    if kind == "per_step":
        return [spec.scale * (reward or 0.0) for reward in rewards]
    scores = list(accumulate(rewards, lambda known, reward: known if reward is None else reward, initial=0.0))
    return [spec.scale * (after - before) for before, after in pairwise(scores)]


def _turn_ends(places: Sequence[int], lengths: Sequence[int]) -> list[int]:
    """The last action token of each turn; a turn without one takes the last before it, or the first of all."""
    return [places[min(max(last, 1), len(places)) - 1] for last in accumulate(lengths)]
