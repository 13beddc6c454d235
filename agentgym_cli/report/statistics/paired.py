"""Two runs on the same tasks: what the differences by task allow to be said. Task by task is the only fair pairing; knows no rows."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.special import bdtr

from agentgym_cli.report.statistics.bootstrap import SEED, Floats
from agentgym_cli.report.statistics.intervals import ENOUGH_TASKS, Interval, Z, t_quantile

_EXACT_TASKS = 14
"""Most differing tasks whose signs are all enumerated, 2**14 ways; beyond, signs are drawn."""
_DRAWS = 19_999
_AT_ONCE = 4_000_000


def mcnemar(won: int, lost: int) -> float | None:
    """Two-sided p-value that tasks which changed were as likely to be won as lost, exact (McNemar 1947); None when no task changed.

    Args:
        won, lost: tasks with one episode in each run that succeeded in the one and not in the other.
    """
    changed = won + lost
    if changed == 0:
        return None
    return min(1.0, 2.0 * float(bdtr(min(won, lost), changed, 0.5)))


def sign_flips(differences: Floats) -> float | None:
    """Two-sided p-value of the mean difference under swaps of the two runs within tasks (Fisher 1935); None when no task differs.

    Exact for up to 14 tasks that differ, else from 19,999 drawn swaps with a fixed seed and the observed one (Phipson and Smyth 2010).
    """
    changed = differences[differences != 0]
    if changed.size == 0:
        return None
    # Sums of other orders of the same numbers differ in their last bits.
    observed = abs(float(changed.sum())) * (1 - 1e-12)
    if changed.size <= _EXACT_TASKS:
        signs = 1 - 2 * ((np.arange(1 << changed.size)[:, None] >> np.arange(changed.size)) & 1)
        return float(np.mean(np.abs(signs @ changed) >= observed))
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
