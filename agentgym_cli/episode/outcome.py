"""What an episode counts as: the one table of the house. Nothing else maps a stop to an outcome."""

from __future__ import annotations

from agentgym_cli.env.contract import EpisodeRules
from agentgym_cli.episode.types import Outcome, StopReason

_NOT_DONE: dict[StopReason, tuple[Outcome, bool]] = {
    StopReason.HORIZON: (Outcome.FAILURE, True),
    StopReason.CONTEXT: (Outcome.FAILURE, True),
    StopReason.POLICY_DEADLINE: (Outcome.FAILURE, True),
    StopReason.ENV_ERROR: (Outcome.INFRA_ERROR, False),
    StopReason.ENV_DEADLINE: (Outcome.INFRA_ERROR, False),
    StopReason.POLICY_UNAVAILABLE: (Outcome.INFRA_ERROR, False),
    StopReason.POLICY_PROTOCOL: (Outcome.INFRA_ERROR, False),
    StopReason.CANCELLED: (Outcome.MISSING, False),
    StopReason.RUN_BUDGET: (Outcome.MISSING, False),
}


def outcome_of(stop: StopReason, *, reward: float, rules: EpisodeRules, verified: bool | None) -> tuple[Outcome, bool]:
    """Outcome of an episode that stopped so, and whether it was truncated.

    Args:
        reward: the return by the dialect's rule; read only for DONE.
        verified: what the verifier said, None where the dialect has none: then the success rule on ``reward`` decides.
    """
    if stop is not StopReason.DONE:
        return _NOT_DONE[stop]
    success = reward >= rules.success_reward if verified is None else verified
    return (Outcome.SUCCESS if success else Outcome.FAILURE), False


def return_of(rewards: list[float], rules: EpisodeRules) -> float:
    """An episode's return from the rewards of its turns, by the dialect's rule: their sum, or the last; 0.0 before any action."""
    if rules.reward_kind == "per_step":
        return sum(rewards)
    return rewards[-1] if rewards else 0.0
