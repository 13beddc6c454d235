"""Two runs on the same tasks: what the differences by task allow to be said. Task by task is the only fair pairing; knows no rows."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.special import bdtr

from agentgym_cli.report.statistics.bootstrap import SEED, Counts, Floats
from agentgym_cli.report.statistics.intervals import ENOUGH_TASKS, Interval, Z, t_quantile

_EXACT_TASKS = 14
"""Most differing tasks whose signs are all enumerated, 2**14 ways; beyond, signs are drawn."""
_DRAWS = 19_999
_AT_ONCE = 4_000_000
_MOST_SUMS = 200_000_000
"""Tasks times sums, up to which all sums are counted; a fraction of a second."""


def mcnemar(won: int, lost: int) -> float | None:
    """Two-sided p-value that tasks which changed were as likely to be won as lost, exact (McNemar 1947); None when no task changed.

    Args:
        won, lost: tasks with one episode in each run that succeeded in the one and not in the other.
    """
    changed = won + lost
    if changed == 0:
        return None
    return min(1.0, 2.0 * float(bdtr(min(won, lost), changed, 0.5)))


def sign_flips(differences: Floats, unit: float | None = None) -> float | None:
    """Two-sided p-value of the mean difference under swaps of the two runs within tasks (Fisher 1935); None when no task differs.

    Exact where differences come in units or up to 14 tasks differ, else from 19,999 drawn swaps with a fixed seed and the observed one
    (Phipson and Smyth 2010).

    Args:
        differences: one for each task, shape (tasks,).
        unit: all of them are whole multiples of it; None where there is no such number.
    """
    changed = differences[differences != 0]
    if changed.size == 0:
        return None
    if unit is not None:
        whole = np.rint(changed / unit).astype(np.int64)
        whole //= np.gcd.reduce(whole)
        if int(np.abs(whole).sum()) * whole.size <= _MOST_SUMS:
            return _counted(np.abs(whole), abs(int(whole.sum())))
    # Sums of other orders of the same numbers differ in their last bits.
    observed = abs(float(changed.sum())) * (1 - 1e-12)
    if changed.size <= _EXACT_TASKS:
        signs = 1 - 2 * ((np.arange(1 << changed.size)[:, None] >> np.arange(changed.size)) & 1)
        return float(np.mean(np.abs(signs @ changed) >= observed))
    return _drawn(changed, observed)


def _counted(sizes: Counts, observed: int) -> float:
    """Chance that the sum of the sizes, each with a fair sign, is as far from 0 as the observed one; every sum is counted."""
    reach = int(sizes.sum())
    chances = np.zeros(2 * reach + 1)
    chances[reach] = 1.0
    for size in sizes.tolist():
        moved = np.zeros_like(chances)
        moved[size:] = chances[:-size] / 2
        moved[:-size] += chances[size:] / 2
        chances = moved
    return min(1.0, float(chances[np.abs(np.arange(-reach, reach + 1)) >= observed].sum()))


def _drawn(changed: Floats, observed: float) -> float:
    rng = np.random.default_rng(SEED)
    rows = max(1, _AT_ONCE // changed.size)
    beyond = 0
    for start in range(0, _DRAWS, rows):
        signs = 1 - 2 * rng.integers(0, 2, size=(min(rows, _DRAWS - start), changed.size), dtype=np.int8)
        beyond += int(np.count_nonzero(np.abs(signs @ changed) >= observed))
    return (1 + beyond) / (1 + _DRAWS)


def matched(tasks: int, won: int, lost: int) -> Interval | None:
    """Interval of (won - lost) / tasks for one episode a task in each run, half a task added to each cell (Agresti and Min 2005).

    None without tasks.
    """
    if tasks == 0:
        return None
    total, gap = tasks + 2, (won - lost) / (tasks + 2)
    half = Z * sqrt(((won + lost + 1) / total - gap * gap) / total)
    return Interval(low=max(-1.0, gap - half), high=min(1.0, gap + half), method="matched pairs")


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
    half = t_quantile(tasks - 1) * sqrt(variance / tasks)
    return Interval(low=max(-1.0, mean - half), high=min(1.0, mean + half), method="paired t over tasks")
