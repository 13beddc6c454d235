"""Shares are of what was scheduled, or of what was scored, and say which."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agentgym_cli.report.accounting import account, account_first_attempts, account_rows, change, share
from agentgym_cli.report.figures import Rate
from agentgym_cli.report.statistics.intervals import Interval
from agentgym_cli.store.rows import CountsRow

COUNTS = st.integers(0, 500)


def make_row(*, success: int = 0, failure: int = 0, infra_error: int = 0, missing: int = 0, **changes: object) -> CountsRow:
    """A category whose tasks have one episode each."""
    scheduled, scored = success + failure + infra_error + missing, success + failure
    row = CountsRow(
        phase="eval", split="test", step=0, category="depth 1", scheduled=scheduled, success=success, failure=failure,
        infra_error=infra_error, missing=missing, by_verifier=0, action_induced=0, truncated=0, first_success=success, first_failure=failure,
        first_infra_error=infra_error, first_missing=missing, retried=0, turns=0, invalid_actions=0, prompt_tokens=0, action_tokens=0,
        seconds=0.0, policy_seconds=0.0, env_seconds=0.0, most_samples=1, tasks=scheduled, tasks_scored=scored, success_squared=success,
        success_scheduled=success, scheduled_squared=scheduled, success_scored=success, scored_squared=scored, infra_squared=infra_error,
        infra_scheduled=infra_error, first_tasks_scored=scored, first_success_squared=success, first_success_scheduled=success,
        first_success_scored=success, first_scored_squared=scored, first_infra_squared=infra_error, first_infra_scheduled=infra_error,
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]


def test_promise_04_the_worked_example() -> None:
    ours = account_rows([make_row(success=60, failure=30, infra_error=10)])
    assert (ours.end_to_end.value, ours.conditional.value, ours.infra_share.value) == (0.6, 60 / 90, 0.1)
    assert (ours.worst_case.value, ours.best_case.value) == (0.6, 0.7)
    for rate, (count, total) in ((ours.end_to_end, (60, 100)), (ours.conditional, (60, 90)), (ours.infra_share, (10, 100))):
        expected = stats.binomtest(count, total).proportion_ci(method="wilson")
        assert (rate.count, rate.denominator, rate.method) == (count, total, "wilson")
        assert (rate.low, rate.high) == pytest.approx((expected.low, expected.high))


@settings(max_examples=50, deadline=None)
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_promise_04_rates_of_any_counts_hold_together(success: int, failure: int, infra_error: int, missing: int) -> None:
    ours = account_rows([make_row(success=success, failure=failure, infra_error=infra_error, missing=missing)])
    assert ours.success + ours.failure + ours.infra_error + ours.missing == ours.scheduled
    assert ours.end_to_end.denominator == ours.infra_share.denominator == ours.scheduled
    assert ours.conditional.denominator == ours.scored == success + failure
    if ours.scheduled:
        worst, best = ours.worst_case.value, ours.best_case.value
        assert worst is not None
        assert best is not None
        # Where nothing has an outcome, nothing is claimed but what could still be.
        assert ours.end_to_end.value == (None if missing == ours.scheduled else worst)
        assert best - worst == pytest.approx((infra_error + missing) / ours.scheduled)
        if ours.scored:
            assert ours.conditional.value is not None
            assert worst - 1e-12 <= ours.conditional.value <= best + 1e-12


def test_promise_04_no_data_is_none_and_never_zero() -> None:
    ours = account_rows([make_row(infra_error=3)])
    assert ours.conditional == Rate(count=0, denominator=0, value=None, why="no episode was scored")
    assert ours.end_to_end.value == 0.0
    nothing = account_rows([])
    assert [rate.value for rate in (nothing.end_to_end, nothing.conditional, nothing.infra_share, nothing.worst_case, nothing.best_case)] == [
        None
    ] * 5
    assert share(0, 0, "turn") == Rate(count=0, denominator=0, value=None, why="no turn")


def test_promise_01_counts_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(AssertionError, match="exactly one outcome"):
        account(success=1, failure=1, infra_error=1, missing=0, scheduled=4)


def test_categories_add_up() -> None:
    rows = [make_row(success=5, failure=1), make_row(failure=2, infra_error=1, missing=3)]
    assert account_rows(rows) == account_rows([make_row(success=5, failure=3, infra_error=1, missing=3)])


def test_several_episodes_of_a_task_are_clustered() -> None:
    row = make_row(
        success=60, failure=40, most_samples=4, tasks=25, tasks_scored=25, success_squared=210, success_scheduled=240,
        scheduled_squared=400, success_scored=240, scored_squared=400, infra_squared=0, infra_scheduled=0,
    )  # fmt: skip
    ours = account_rows([row])
    # Wilson's ends with n = p (1 - p) / v and t(24) in place of z.
    n, t = 0.24 / (25 / 24 * (210 - 2 * 0.6 * 240 + 0.36 * 400) / 100**2), stats.t.ppf(0.975, 24)
    centre, half = (0.6 + t * t / (2 * n)) / (1 + t * t / n), t / (1 + t * t / n) * (0.24 / n + t * t / (4 * n * n)) ** 0.5
    assert ours.end_to_end.method == "t over tasks"
    assert (ours.end_to_end.low, ours.end_to_end.high) == pytest.approx((centre - half, centre + half))
    assert ours.infra_share.method == "wilson over tasks"


def test_promise_03_first_attempts_are_accounted_for_apart() -> None:
    row = make_row(success=8, failure=1, infra_error=1, first_success=6, first_failure=1, first_infra_error=3, retried=3)
    first = account_first_attempts([row])
    assert (first.retried, first.accounting.end_to_end.value, first.accounting.infra_share.value) == (3, 0.6, 0.3)
    assert account_rows([row]).end_to_end.value == 0.8


def rate(value: float | None, low: float | None = None, high: float | None = None) -> Rate:
    return Rate(count=0, denominator=1, value=value, low=low, high=high)


def test_a_change_is_in_points_and_says_whether_the_intervals_overlap() -> None:
    apart = change(rate(0.25, 0.2, 0.3), rate(0.5, 0.4, 0.6), Interval(low=0.125, high=0.375, method="newcombe"))
    assert (apart.points, apart.low, apart.high, apart.intervals_overlap) == (25.0, 12.5, 37.5, False)
    touching = change(rate(0.25, 0.2, 0.3), rate(0.5, 0.3, 0.6), None)
    assert (touching.points, touching.low, touching.intervals_overlap) == (25.0, None, True)
    assert change(rate(0.5, 0.4, 0.6), rate(0.25, 0.2, 0.3), None).intervals_overlap is False


def test_a_change_without_data_is_none() -> None:
    nothing = change(rate(None), rate(0.5, 0.4, 0.6), Interval(low=0.0, high=1.0, method="newcombe"))
    assert (nothing.points, nothing.low, nothing.intervals_overlap) == (None, None, None)
