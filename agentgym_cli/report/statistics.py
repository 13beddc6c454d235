"""Intervals for proportions and for differences of proportions, all 95%. Knows no rows; no data is None, never a zero-width interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from scipy.special import stdtrit

LEVEL = 0.95
ENOUGH_TASKS = 20
"""Fewest clusters for a t interval; below, its normality cannot be leaned on."""
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 95% interval and how it was made."""

    low: float
    high: float
    method: str
    """``wilson``, ``wilson over tasks``, ``t over tasks``, ``newcombe`` or ``paired t over tasks``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSums:
    """Sums over tasks of a count x and its denominator n within each task."""

    tasks: int
    """Tasks with n > 0."""
    xx: int
    xn: int
    nn: int


def wilson(count: float, total: float, method: str = "wilson") -> Interval | None:
    """Score interval of a proportion (Wilson 1927, without continuity correction); None when ``total`` is 0."""
    if total <= 0:
        return None
    share, spread = count / total, _Z * _Z / total
    centre = (share + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * sqrt(share * (1 - share) / total + spread / (4 * total))
    # The formula gives exactly 0 and 1 at the ends; floating point does not.
    low = 0.0 if count <= 0 else max(0.0, centre - half)
    high = 1.0 if count >= total else min(1.0, centre + half)
    return Interval(low=low, high=high, method=method)


def over_tasks(count: int, total: int, sums: TaskSums) -> Interval | None:
    """Interval of a share of episodes that come several to a task: tasks are the independent unit.

    From 20 tasks up a t interval with the variance of the ratio estimator clustered by task, m / (m - 1) * sum (x_i - p n_i)^2 / N^2
    (Cochran 1977, eq. 6.13); with equally many episodes per task it is the t interval of the task means. With fewer tasks, or when all tasks
    agree, Wilson's with tasks in place of episodes, which is never too narrow. None when ``total`` is 0.
    """
    if total == 0 or sums.tasks == 0:
        return None
    share = count / total
    squares = sums.xx - 2 * share * sums.xn + share * share * sums.nn
    if sums.tasks < ENOUGH_TASKS or squares <= 1e-12 * sums.nn:
        return wilson(share * sums.tasks, sums.tasks, "wilson over tasks")
    error = sqrt(sums.tasks / (sums.tasks - 1) * squares) / total
    half = _t(sums.tasks - 1) * error
    return Interval(low=max(0.0, share - half), high=min(1.0, share + half), method="t over tasks")


def paired(tasks: int, total: float, squared: float) -> Interval | None:
    """t interval of the mean difference over ``tasks`` pairs, from the sum of the differences and of their squares.

    None with fewer than 20 pairs or when all differences are equal.
    """
    if tasks < ENOUGH_TASKS:
        return None
    mean = total / tasks
    variance = (squared - tasks * mean * mean) / (tasks - 1)
    if variance <= 1e-12:
        return None
    half = _t(tasks - 1) * sqrt(variance / tasks)
    return Interval(low=max(-1.0, mean - half), high=min(1.0, mean + half), method="paired t over tasks")


def difference(count: float, total: float, base_count: float, base_total: float) -> Interval | None:
    """Interval of count / total - base_count / base_total for independent samples (Newcombe 1998, method 10); None without data."""
    new, base = wilson(count, total), wilson(base_count, base_total)
    if new is None or base is None:
        return None
    p, q = count / total, base_count / base_total
    low = p - q - sqrt((p - new.low) ** 2 + (base.high - q) ** 2)
    high = p - q + sqrt((new.high - p) ** 2 + (q - base.low) ** 2)
    return Interval(low=max(-1.0, low), high=min(1.0, high), method="newcombe")


def _t(freedom: int) -> float:
    return float(stdtrit(freedom, 0.5 + LEVEL / 2))
