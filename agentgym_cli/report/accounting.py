"""The only place that computes a rate: what was scheduled, what it counted as, and which shares may be claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_cli.report.statistics.intervals import Interval, TaskSums, over_tasks, wilson
from agentgym_cli.store.rows import CountsRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share and what it is a share of."""

    count: int
    denominator: int
    value: float | None
    """None when the denominator is 0: no data."""
    low: float | None = None
    """95% interval; None without data, and for bounds, which have no sampling error of their own."""
    high: float | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Episodes of one part of a run. Success is shown against both denominators, with the infra share and both extreme cases."""

    scheduled: int
    scored: int
    success: int
    failure: int
    infra_error: int
    missing: int
    end_to_end: Rate
    """Successes of scheduled."""
    conditional: Rate
    """Successes of scored."""
    infra_share: Rate
    """Infra errors of scheduled."""
    worst_case: Rate
    """End-to-end success if every unscored episode had failed."""
    best_case: Rate
    """End-to-end success if every unscored episode had succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAttempts:
    """What the same episodes would have counted as without retries."""

    retried: int
    """Episodes that got more than one attempt."""
    accounting: Accounting


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The difference of one rate between two evaluations, in percentage points."""

    points: float | None
    """After minus before; None when one of them has no data."""
    low: float | None
    """95% interval in points; None where it cannot be had."""
    high: float | None
    method: str | None
    intervals_overlap: bool | None
    """Of the two rates' own intervals; None when one has none."""


def change(before: Rate, after: Rate, interval: Interval | None) -> Change:
    """The change from one rate to another; ``interval`` is of the difference, as a fraction."""
    if before.value is None or after.value is None:
        return Change(points=None, low=None, high=None, method=None, intervals_overlap=None)
    overlap = None
    if before.low is not None and before.high is not None and after.low is not None and after.high is not None:
        overlap = before.low <= after.high and after.low <= before.high
    return Change(
        points=100 * (after.value - before.value),
        low=100 * interval.low if interval else None,
        high=100 * interval.high if interval else None,
        method=interval.method if interval else None,
        intervals_overlap=overlap,
    )


def share(count: int, denominator: int) -> Rate:
    """A share without an interval."""
    return Rate(count=count, denominator=denominator, value=count / denominator if denominator else None)


def account(
    *, success: int, failure: int, infra_error: int, missing: int, scheduled: int, clusters: tuple[TaskSums, TaskSums, TaskSums] | None = None
) -> Accounting:
    """Count against the schedule.

    Args:
        clusters: sums over tasks for successes of scheduled, successes of scored, infra errors of scheduled, when tasks have several
            episodes; None when every task has one.
    """
    assert success + failure + infra_error + missing == scheduled, "every scheduled episode has exactly one outcome"
    scored = success + failure
    ends, conditions, infra = clusters or (None, None, None)
    return Accounting(
        scheduled=scheduled,
        scored=scored,
        success=success,
        failure=failure,
        infra_error=infra_error,
        missing=missing,
        end_to_end=_rate(success, scheduled, ends),
        conditional=_rate(success, scored, conditions),
        infra_share=_rate(infra_error, scheduled, infra),
        worst_case=share(success, scheduled),
        best_case=share(scheduled - failure, scheduled),
    )


def _rate(count: int, denominator: int, sums: TaskSums | None) -> Rate:
    interval: Interval | None = wilson(count, denominator) if sums is None else over_tasks(count, denominator, sums)
    if interval is None:
        return share(count, denominator)
    return Rate(count=count, denominator=denominator, value=count / denominator, low=interval.low, high=interval.high, method=interval.method)


def account_rows(rows: Sequence[CountsRow]) -> Accounting:
    """Count categories of one split together; intervals go by task where tasks have several episodes."""
    return account(
        success=_total(rows, "success"),
        failure=_total(rows, "failure"),
        infra_error=_total(rows, "infra_error"),
        missing=_total(rows, "missing"),
        scheduled=_total(rows, "scheduled"),
        clusters=_clusters(rows) if max((row.most_samples for row in rows), default=1) > 1 else None,
    )


def account_first_attempts(rows: Sequence[CountsRow]) -> FirstAttempts:
    """The same, had no episode been tried again. Intervals go by episode."""
    accounting = account(
        success=_total(rows, "first_success"),
        failure=_total(rows, "first_failure"),
        infra_error=_total(rows, "first_infra_error"),
        missing=_total(rows, "first_missing"),
        scheduled=_total(rows, "scheduled"),
    )
    return FirstAttempts(retried=_total(rows, "retried"), accounting=accounting)


def _clusters(rows: Sequence[CountsRow]) -> tuple[TaskSums, TaskSums, TaskSums]:
    def sums(tasks: str, xx: str, xn: str, nn: str) -> TaskSums:
        return TaskSums(tasks=_total(rows, tasks), xx=_total(rows, xx), xn=_total(rows, xn), nn=_total(rows, nn))

    return (
        sums("tasks", "success_squared", "success_scheduled", "scheduled_squared"),
        sums("tasks_scored", "success_squared", "success_scored", "scored_squared"),
        sums("tasks", "infra_squared", "infra_scheduled", "scheduled_squared"),
    )


def _total(rows: Sequence[CountsRow], name: str) -> int:
    return sum(int(getattr(row, name)) for row in rows)
