"""Intervals for proportions and for differences of proportions, all 95%. Knows no rows; no data is None, never a zero-width interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from scipy.special import stdtrit

LEVEL = 0.95
ENOUGH_TASKS = 20
"""Fewest clusters for a t interval; below, its normality cannot be leaned on."""
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
"""Upper 2.5% point of the normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 95% interval and how it was made."""

    low: float
    high: float
    method: str
    """``wilson``, ``wilson over tasks``, ``t over tasks``, ``newcombe``, ``paired t over tasks``, ``cluster bootstrap`` ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSums:
    """Sums over tasks of a count x and its denominator n within each task."""

    tasks: int
    """Tasks with n > 0."""
    xx: int
    xn: int
    nn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A share with the ends of its interval, as fractions."""

    value: float
    low: float
    high: float


def wilson(count: float, total: float, method: str = "wilson") -> Interval | None:
    """Score interval of a proportion (Wilson 1927, without continuity correction); None when ``total`` is 0."""
    return _score(count / total, total, Z, method) if total > 0 else None


def over_tasks(count: int, total: int, sums: TaskSums) -> Interval | None:
    """Interval of a share of episodes that come several to a task: tasks are the independent unit.

    From 20 tasks up a t interval with the variance of the ratio estimator clustered by task, m / (m - 1) * sum (x_i - p n_i)^2 / N^2
    (Cochran 1977, eq. 6.13), which with equally many episodes per task is that of the task means. With fewer tasks, or when all task means are
    equal, Wilson's with tasks in place of episodes. None when ``total`` is 0.
    """
    if total == 0 or sums.tasks == 0:
        return None
    share = count / total
    squares = sums.xx - 2 * share * sums.xn + share * share * sums.nn
    if sums.tasks < ENOUGH_TASKS or squares <= 1e-12 * sums.nn:
        return wilson(share * sums.tasks, sums.tasks, "wilson over tasks")
    return _t_interval(share, sums.tasks / (sums.tasks - 1) * squares / total**2, sums.tasks)


def mean_over_tasks(tasks: int, total: float, squared: float) -> Interval | None:
    """The same for the mean of one number between 0 and 1 per task, from the sum of the numbers and of their squares; None without tasks."""
    if tasks == 0:
        return None
    mean = total / tasks
    squares = squared - tasks * mean * mean
    if tasks < ENOUGH_TASKS or squares <= 1e-12 * tasks:
        return wilson(total, tasks, "wilson over tasks")
    return _t_interval(mean, squares / (tasks - 1) / tasks, tasks)


def _t_interval(mean: float, variance: float, tasks: int) -> Interval:
    """The means from which ``mean`` is no further than t standard errors, where the variance is to the mean as p (1 - p) is to p.

    Wilson's form with the number of episodes that would give this variance (Korn and Graubard 1998) and t in place of z. Between 20 and 30
    tasks the plain mean +- t * error covers only 91% where success is rare, and leaves [0, 1].
    """
    return _score(mean, mean * (1 - mean) / variance, t_quantile(tasks - 1), "t over tasks")


def _score(share: float, total: float, reach: float, method: str) -> Interval:
    spread = reach * reach / total
    centre = (share + spread / 2) / (1 + spread)
    half = reach / (1 + spread) * sqrt(share * (1 - share) / total + spread / (4 * total))
    # The formula gives exactly 0 and 1 at the ends; floating point does not.
    low = 0.0 if share <= 0 else max(0.0, centre - half)
    high = 1.0 if share >= 1 else min(1.0, centre + half)
    return Interval(low=low, high=high, method=method)


def difference(count: float, total: float, base_count: float, base_total: float) -> Interval | None:
    """Interval of count / total - base_count / base_total for independent samples (Newcombe 1998, method 10); None without data."""
    new, base = wilson(count, total), wilson(base_count, base_total)
    if new is None or base is None:
        return None
    ours = Estimate(value=count / total, low=new.low, high=new.high)
    theirs = Estimate(value=base_count / base_total, low=base.low, high=base.high)
    return apart(ours, theirs, "newcombe")


def apart(ours: Estimate, theirs: Estimate, method: str) -> Interval:
    """Interval of ours - theirs from the two intervals of independent samples (Zou and Donner 2008); Newcombe's with Wilson's intervals."""
    gap = ours.value - theirs.value
    low = gap - sqrt((ours.value - ours.low) ** 2 + (theirs.high - theirs.value) ** 2)
    high = gap + sqrt((ours.high - ours.value) ** 2 + (theirs.value - theirs.low) ** 2)
    return Interval(low=max(-1.0, low), high=min(1.0, high), method=method)


def mean_of(estimates: Sequence[Estimate]) -> Interval | None:
    """Interval of the plain mean of independent shares from their intervals (Zou and Donner 2008); None without shares."""
    if not estimates:
        return None
    count = len(estimates)
    mean = sum(each.value for each in estimates) / count
    low = mean - sqrt(sum((each.value - each.low) ** 2 for each in estimates)) / count
    high = mean + sqrt(sum((each.high - each.value) ** 2 for each in estimates)) / count
    return Interval(low=max(0.0, low), high=min(1.0, high), method="combined")


def t_quantile(freedom: int) -> float:
    """Upper 2.5% point of Student's t."""
    return float(stdtrit(freedom, 0.5 + LEVEL / 2))
