"""The table of outcomes, row by row."""

from __future__ import annotations

import pytest

from agentgym_cli.episode.outcome import outcome_of, return_of
from agentgym_cli.episode.types import Outcome, StopReason
from tests.episode.fakes import make_rules


@pytest.mark.parametrize(
    ("stop", "reward", "verified", "outcome", "truncated"),
    [
        (StopReason.DONE, 1.0, None, Outcome.SUCCESS, False),
        (StopReason.DONE, 0.5, None, Outcome.FAILURE, False),
        (StopReason.DONE, 0.0, True, Outcome.SUCCESS, False),
        (StopReason.DONE, 1.0, False, Outcome.FAILURE, False),
        (StopReason.HORIZON, 1.0, None, Outcome.FAILURE, True),
        (StopReason.CONTEXT, 1.0, None, Outcome.FAILURE, True),
        (StopReason.POLICY_DEADLINE, 1.0, None, Outcome.FAILURE, True),
        (StopReason.ENV_ERROR, 1.0, None, Outcome.INFRA_ERROR, False),
        (StopReason.ENV_DEADLINE, 1.0, None, Outcome.INFRA_ERROR, False),
        (StopReason.POLICY_UNAVAILABLE, 1.0, None, Outcome.INFRA_ERROR, False),
        (StopReason.POLICY_PROTOCOL, 1.0, None, Outcome.INFRA_ERROR, False),
        (StopReason.CANCELLED, 1.0, None, Outcome.MISSING, False),
        (StopReason.RUN_BUDGET, 1.0, None, Outcome.MISSING, False),
    ],
)
def test_outcome_of_a_stop(stop: StopReason, reward: float, verified: bool | None, outcome: Outcome, truncated: bool) -> None:
    assert outcome_of(stop, reward=reward, rules=make_rules(success=1.0), verified=verified) == (outcome, truncated)


def test_every_stop_has_an_outcome() -> None:
    for stop in StopReason:
        outcome_of(stop, reward=0.0, rules=make_rules(), verified=None)


def test_success_is_at_least_the_dialects_reward() -> None:
    rules = make_rules(success=0.25)
    assert outcome_of(StopReason.DONE, reward=0.25, rules=rules, verified=None)[0] is Outcome.SUCCESS
    assert outcome_of(StopReason.DONE, reward=0.2499, rules=rules, verified=None)[0] is Outcome.FAILURE


@pytest.mark.parametrize(("kind", "total"), [("terminal", 0.5), ("per_step", 1.75), ("cumulative", 0.5)])
def test_return_adds_up_by_the_dialects_rule(kind: str, total: float) -> None:
    assert return_of([1.0, 0.25, 0.5], make_rules(reward_kind=kind)) == total  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["terminal", "per_step", "cumulative"])
def test_return_before_any_action_is_zero(kind: str) -> None:
    assert return_of([], make_rules(reward_kind=kind)) == 0.0  # type: ignore[arg-type]
