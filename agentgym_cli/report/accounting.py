"""The only place that computes a rate: what was scheduled, what it counted as, and which shares may be claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from agentgym_cli.report.figures import Accounting, Averages, Change, Each, FirstAttempts, Ledger, Macro, Rate, Tally, Unwritten
from agentgym_cli.report.statistics.bootstrap import ratio_bootstrap
from agentgym_cli.report.statistics.intervals import Estimate, Interval, TaskSums, mean_of, over_tasks, wilson
from agentgym_cli.store.rows import CountsRow, ReasonRow
from agentgym_cli.store.task_rows import CellRow, StageRow


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


def share(count: int, denominator: int, of: str = "episode counts here") -> Rate:
    """A share without an interval; ``of`` says what there is none of when the denominator is 0."""
    if denominator == 0:
        return Rate(count=count, denominator=0, value=None, why=f"no {of}")
    return Rate(count=count, denominator=denominator, value=count / denominator)


def each(what: str, spent: float | None, successes: int, unknown: str = "not recorded") -> Each:
    """What one success took; ``unknown`` is why ``spent`` is None."""
    why = unknown if spent is None else "no success" if successes == 0 else None
    return Each(what=what, spent=spent, successes=successes, value=None if why or spent is None else spent / successes, why=why)


def untold(imported: str | None) -> str | None:
    """Why infra errors of a run cannot be told from failures: ``imported`` is the format of the files it was imported from, None for our own."""
    return None if imported is None else "its files do not tell infra errors from failures"


Cell = CellRow | StageRow


def account(
    *,
    success: int,
    failure: int,
    infra_error: int,
    missing: int,
    scheduled: int,
    clusters: tuple[TaskSums, TaskSums, TaskSums] | None = None,
    cells: Sequence[Cell] = (),
    infra_unknown: str | None = None,
) -> Accounting:
    """Count against the schedule. Where no episode has an outcome, every share of the schedule is without data.

    Args:
        clusters: sums over tasks for successes of scheduled, successes of scored, infra errors of scheduled, when tasks have several
            episodes; None when every task has one.
        cells: the same tasks one kind at a time, for a bootstrap beside each t interval; empty leaves it out.
        infra_unknown: why nobody can tell infra errors from failures, so that there is no best case; None where they are told apart.
    """
    assert success + failure + infra_error + missing == scheduled, "every scheduled episode has exactly one outcome"
    scored = success + failure
    ends, conditions, infra = clusters or (None, None, None)
    best = share(scheduled - failure, scheduled, _SCHEDULED)
    nothing = f"none of {scheduled:,} has an outcome" if scheduled and missing == scheduled else None
    return Accounting(
        scheduled=scheduled,
        scored=scored,
        success=success,
        failure=failure,
        infra_error=infra_error,
        missing=missing,
        end_to_end=_rate(success, scheduled, ends, cells, ("success", "scheduled"), nothing),
        conditional=_rate(success, scored, conditions, cells, ("success", "scored")),
        infra_share=_rate(infra_error, scheduled, infra, cells, ("infra_error", "scheduled"), nothing or infra_unknown),
        worst_case=share(success, scheduled, _SCHEDULED),
        best_case=replace(best, value=None, why=infra_unknown) if infra_unknown else best,
    )


_SCHEDULED = "episode was scheduled"


def _rate(count: int, denominator: int, sums: TaskSums | None, cells: Sequence[Cell], names: tuple[str, str], unknown: str | None = None) -> Rate:
    """A share with its interval; ``unknown`` is why there is none although there is something to share."""
    if unknown is not None:
        return Rate(count=count, denominator=denominator, value=None, why=unknown)
    interval: Interval | None = wilson(count, denominator) if sums is None else over_tasks(count, denominator, sums)
    if interval is None:
        return share(count, denominator, _SCHEDULED if names[1] == "scheduled" else "episode was scored")
    beside = None
    if cells and interval.method == "t over tasks":
        weights, x, n = (np.array([getattr(cell, name) for cell in cells]) for name in ("tasks", *names))
        beside = ratio_bootstrap(weights, x.astype(np.float64), n.astype(np.float64))
    value = count / denominator
    return Rate(count=count, denominator=denominator, value=value, low=interval.low, high=interval.high, method=interval.method, beside=beside)


def account_cells(cells: Sequence[Cell], infra_unknown: str | None = None) -> Accounting:
    """Count tasks that come by kind; intervals go by task where tasks have several episodes."""

    def over(x: str, n: str) -> TaskSums:
        pairs = [(cell.tasks, int(getattr(cell, x)), int(getattr(cell, n))) for cell in cells if getattr(cell, n)]
        return TaskSums(
            tasks=sum(tasks for tasks, _, _ in pairs),
            xx=sum(tasks * a * a for tasks, a, _ in pairs),
            xn=sum(tasks * a * b for tasks, a, b in pairs),
            nn=sum(tasks * b * b for tasks, _, b in pairs),
        )

    totals = {name: sum(cell.tasks * int(getattr(cell, name)) for cell in cells) for name in ("scheduled", "success", "scored", "infra_error")}
    several = any(cell.scheduled > 1 for cell in cells)
    return account(
        success=totals["success"],
        failure=totals["scored"] - totals["success"],
        infra_error=totals["infra_error"],
        missing=totals["scheduled"] - totals["scored"] - totals["infra_error"],
        scheduled=totals["scheduled"],
        clusters=(over("success", "scheduled"), over("success", "scored"), over("infra_error", "scheduled")) if several else None,
        cells=cells,
        infra_unknown=infra_unknown,
    )


def ledger(rows: Sequence[ReasonRow], *, left_out: int | None) -> Ledger:
    """Every scheduled episode under its outcome and reason, from rows that have one reason each; ``left_out`` is as in ``Ledger``."""

    def tallies(outcome: str, reasons: Sequence[str]) -> tuple[Tally, ...]:
        counted: dict[str, int] = {}
        for row, reason in zip(rows, reasons, strict=True):
            if row.outcome == outcome:
                counted[reason] = counted.get(reason, 0) + row.episodes
        return tuple(Tally(why=why, episodes=episodes) for why, episodes in sorted(counted.items(), key=lambda item: (-item[1], item[0])))

    stops = [row.stop for row in rows]
    success = sum(row.episodes for row in rows if row.outcome == "success")
    failure, infra = tallies("failure", stops), tallies("infra_error", [row.cause or row.stop for row in rows])
    missing = tallies("missing", ["no attempt" if stop == "missing" else stop for stop in stops])
    scheduled = sum(row.episodes for row in rows)
    assert success + sum(tally.episodes for tally in (*failure, *infra, *missing)) == scheduled, "every scheduled episode has exactly one outcome"
    named = (("failure", failure), ("infra error", infra), ("missing", missing))
    return Ledger(
        success=success,
        failure=failure,
        infra_error=infra,
        action_induced=sum(row.action_induced for row in rows),
        missing=missing,
        scheduled=scheduled,
        left_out=left_out,
        sentence=" + ".join([f"{success:,} success", *(_summed(name, reasons) for name, reasons in named)]) + f" = {scheduled:,} scheduled",
    )


def _summed(name: str, tallies: Sequence[Tally]) -> str:
    reasons = ", ".join(f"{tally.why} {tally.episodes:,}" for tally in tallies)
    return f"{sum(tally.episodes for tally in tallies):,} {name}" + (f" ({reasons})" if reasons else "")


def unwritten(found: Accounting, planned: int | None) -> Unwritten | None:
    """What of ``planned`` episodes was never written down; None where all was, or where the plan is not known."""
    if planned is None or planned <= found.scheduled:
        return None
    return Unwritten(
        planned=planned, written=found.scheduled, worst_case=share(found.success, planned), best_case=share(planned - found.failure, planned)
    )


def averages(scenarios: str, pooled: Accounting, parts: Mapping[str, Accounting]) -> Averages:
    """The pooled and the macro average of ``parts``, scenarios by name, which ``pooled`` counts together."""
    return Averages(
        scenarios=scenarios,
        pooled=pooled,
        macro_end_to_end=_macro({name: part.end_to_end for name, part in parts.items()}),
        macro_conditional=_macro({name: part.conditional for name, part in parts.items()}),
        macro_infra_share=_macro({name: part.infra_share for name, part in parts.items()}),
    )


def _macro(rates: Mapping[str, Rate]) -> Macro:
    known = {name: estimate(rate) for name, rate in rates.items()}
    shown = [each for each in known.values() if each is not None]
    interval = mean_of(shown)
    return Macro(
        value=sum(each.value for each in shown) / len(shown) if shown else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        over=tuple(name for name, each in known.items() if each is not None),
        without=tuple(name for name, each in known.items() if each is None),
    )


def estimate(rate: Rate) -> Estimate | None:
    """A rate with its interval as an estimate; None without either."""
    if rate.value is None or rate.low is None or rate.high is None:
        return None
    return Estimate(value=rate.value, low=rate.low, high=rate.high)


def account_rows(rows: Sequence[CountsRow], cells: Sequence[Cell] = (), infra_unknown: str | None = None) -> Accounting:
    """Count categories of one split together; intervals go by task where tasks have several episodes, a bootstrap beside them from ``cells``.

    ``infra_unknown`` is as in ``account``.
    """
    return account(
        success=_total(rows, "success"),
        failure=_total(rows, "failure"),
        infra_error=_total(rows, "infra_error"),
        missing=_total(rows, "missing"),
        scheduled=_total(rows, "scheduled"),
        clusters=_clusters(rows) if max((row.most_samples for row in rows), default=1) > 1 else None,
        cells=cells,
        infra_unknown=infra_unknown,
    )


def account_first_attempts(rows: Sequence[CountsRow]) -> FirstAttempts:
    """The same, had no episode been tried again."""
    several = max((row.most_samples for row in rows), default=1) > 1
    accounting = account(
        success=_total(rows, "first_success"),
        failure=_total(rows, "first_failure"),
        infra_error=_total(rows, "first_infra_error"),
        missing=_total(rows, "first_missing"),
        scheduled=_total(rows, "scheduled"),
        clusters=_clusters(rows, "first_") if several else None,
    )
    return FirstAttempts(retried=_total(rows, "retried"), accounting=accounting)


def account_first_cells(cells: Sequence[StageRow]) -> FirstAttempts:
    """The same for tasks of training that come by kind."""
    alone = [replace(cell, success=cell.first_success, scored=cell.first_scored, infra_error=cell.first_infra_error) for cell in cells]
    return FirstAttempts(retried=sum(cell.tasks * cell.retried for cell in cells), accounting=account_cells(alone))


def _clusters(rows: Sequence[CountsRow], which: str = "") -> tuple[TaskSums, TaskSums, TaskSums]:
    """Sums of end-to-end success, conditional success and infra errors; ``which`` is ``first_`` for first attempts alone."""

    def sums(tasks: str, xx: str, xn: str, nn: str) -> TaskSums:
        return TaskSums(tasks=_total(rows, tasks), xx=_total(rows, xx), xn=_total(rows, xn), nn=_total(rows, nn))

    return (
        sums("tasks", f"{which}success_squared", f"{which}success_scheduled", "scheduled_squared"),
        sums(f"{which}tasks_scored", f"{which}success_squared", f"{which}success_scored", f"{which}scored_squared"),
        sums("tasks", f"{which}infra_squared", f"{which}infra_scheduled", "scheduled_squared"),
    )


def _total(rows: Sequence[CountsRow], name: str) -> int:
    return sum(int(getattr(row, name)) for row in rows)
