"""What two runs differ by on the same tasks: every pair counts once, tests are exact or by permutation. Knows no store and no frozen run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from agentgym_cli.report.statistics.bootstrap import Floats, mean_bootstrap
from agentgym_cli.report.statistics.intervals import ENOUGH_TASKS, Interval
from agentgym_cli.report.statistics.multiple import holm
from agentgym_cli.report.statistics.paired import matched, mcnemar, paired, sign_flips
from agentgym_cli.report.statistics.power import smallest_paired
from agentgym_cli.store.task_rows import TaskRow

SIGNIFICANT = 0.05
_LARGEST = 1e140
"""Differences of rewards beyond it have squares whose sums overflow."""
_LARGEST_COUNTED = 1e6
"""Largest whole difference of rewards of which every sum can be counted."""
_ROUNDING, _NOTHING = 1e-9, 1e-12
"""Relative and absolute difference of two mean rewards that floating point alone can make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One task in both runs."""

    base: TaskRow
    other: TaskRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The other run minus the base run, over tasks that both have. Shares are in fractions; a reward is in its own unit."""

    what: str
    """``end-to-end success``, ``conditional success`` or ``reward``."""
    tasks: int
    """Pairs that count."""
    left_out: int
    """Pairs that do not, since one side has no scored episode."""
    mean: float | None
    low: float | None
    high: float | None
    method: str | None
    beside: Interval | None
    """The cluster bootstrap's interval, where it is not the first."""
    won: int
    """Tasks that the other run does better in."""
    lost: int
    p_value: float | None
    """Of no difference, two-sided."""
    test: str | None
    """``exact McNemar`` with one episode of each task in both runs, else ``permutation within tasks``."""
    p_adjusted: float | None
    """Holm's, over ``family`` comparisons."""
    family: int
    smallest: float | None
    """Difference that these data would have shown four times in five, at the 5% level; None without scatter."""
    why: str | None
    """Why something above is None."""
    significant: bool | None
    """Whether a difference may be claimed at the 5% level after Holm; None where there was nothing to test."""


def end_to_end(pairs: Sequence[Pair]) -> Difference:
    """Successes of scheduled, task by task."""
    return _shares("end-to-end success", pairs, "scheduled", 0)


def conditional(pairs: Sequence[Pair]) -> Difference:
    """Successes of scored, over tasks with a scored episode in both runs."""
    kept = [pair for pair in pairs if pair.base.scored and pair.other.scored]
    return _shares("conditional success", kept, "scored", len(pairs) - len(kept))


def reward(pairs: Sequence[Pair]) -> Difference:
    """Mean return of a task's scored episodes, over tasks that have one in both runs."""
    kept = [pair for pair in pairs if pair.base.rewards and pair.other.rewards]
    gaps = np.array([_gap(pair.other.reward / pair.other.rewards, pair.base.reward / pair.base.rewards) for pair in kept])
    if gaps.size and not np.abs(gaps).max() <= _LARGEST:
        return replace(
            _difference("reward", gaps[:0], len(pairs), None, None, None, ""), why="rewards are too large for their squares to be added up"
        )
    interval = mean_bootstrap(gaps)
    unit = 1.0 if gaps.size and np.abs(gaps).max() <= _LARGEST_COUNTED and np.array_equal(gaps, np.rint(gaps)) else None
    return _difference("reward", gaps, len(pairs) - len(kept), interval, None, sign_flips(gaps, unit), "permutation within tasks")


def _gap(other: float, base: float) -> float:
    """``other - base``; 0 where sums of the same rewards in another order could be so far apart."""
    gap = other - base
    return 0.0 if isfinite(gap) and abs(gap) <= max(_ROUNDING * max(abs(other), abs(base)), _NOTHING) else gap


def _shares(what: str, pairs: Sequence[Pair], of: str, left_out: int) -> Difference:
    def mean(row: TaskRow) -> float:
        return row.success / int(getattr(row, of))

    gaps = np.array([mean(pair.other) - mean(pair.base) for pair in pairs])
    if all(getattr(row, of) == 1 for pair in pairs for row in (pair.base, pair.other)):
        won, lost = int((gaps > 0).sum()), int((gaps < 0).sum())
        first, beside = share_interval(gaps, once=True)
        return _difference(what, gaps, left_out, first, beside, mcnemar(won, lost), "exact McNemar")
    first, beside = share_interval(gaps, once=False)
    return _difference(what, gaps, left_out, first, beside, sign_flips(gaps, _unit(pairs, of)), "permutation within tasks")


def share_interval(gaps: Floats, *, once: bool) -> tuple[Interval | None, Interval | None]:
    """Interval of the mean difference of shares by task, and the cluster bootstrap's where that is not the first.

    Args:
        gaps: one for each task, from -1 to 1, shape (tasks,).
        once: every task has one episode in both.
    """
    by_cell = matched(int(gaps.size), int((gaps > 0).sum()), int((gaps < 0).sum()))
    if once:
        return by_cell, None
    drawn = mean_bootstrap(gaps)
    if drawn is None and set(np.abs(gaps).tolist()) <= {0.0, 1.0}:
        # Tasks that agree about all or nothing tell as much as single episodes of them.
        drawn = by_cell
    first = paired(gaps.size, float(gaps.sum()), float((gaps**2).sum())) or drawn
    return first, drawn if first is not drawn else None


def _unit(pairs: Sequence[Pair], of: str) -> float | None:
    """What all differences are whole multiples of, where every task has as many episodes as any other."""
    sizes = {(int(getattr(pair.base, of)), int(getattr(pair.other, of))) for pair in pairs}
    (base, other), *more = sizes or {(1, 1)}
    return None if more else 1 / (base * other)


def _difference(
    what: str, gaps: Floats, left_out: int, interval: Interval | None, beside: Interval | None, p_value: float | None, test: str
) -> Difference:
    tasks = int(gaps.size)
    why = None
    if tasks == 0:
        why = "no task counts in both runs"
    elif p_value is None:
        why = "no task came out differently"
    elif interval is None:
        why = "all tasks differ by the same, which has no scatter to make an interval of"
    return Difference(
        what=what,
        tasks=tasks,
        left_out=left_out,
        mean=float(gaps.mean()) if tasks else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        method=_method(interval, tasks),
        beside=beside,
        won=int((gaps > 0).sum()),
        lost=int((gaps < 0).sum()),
        p_value=p_value,
        test=test if p_value is not None else None,
        p_adjusted=p_value,
        family=1,
        smallest=smallest_paired(tasks, float((gaps**2).sum())),
        why=why,
        significant=_significant(p_value),
    )


def _significant(p_adjusted: float | None) -> bool | None:
    return None if p_adjusted is None else p_adjusted <= SIGNIFICANT


def _method(interval: Interval | None, tasks: int) -> str | None:
    if interval is None or interval.method != "cluster bootstrap" or tasks >= ENOUGH_TASKS:
        return interval.method if interval else None
    return f"cluster bootstrap, few tasks ({tasks})"


def adjusted(family: Sequence[Difference]) -> tuple[Difference, ...]:
    """The same comparisons with Holm's p-values over all of them that could be tested."""
    values = holm([each.p_value for each in family])
    size = sum(each.p_value is not None for each in family)
    return tuple(
        replace(each, p_adjusted=value, family=max(1, size), significant=_significant(value)) for each, value in zip(family, values, strict=True)
    )
