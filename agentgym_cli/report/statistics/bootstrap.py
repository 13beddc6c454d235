"""Cluster bootstrap: tasks are drawn again, whole, with a fixed seed, so that the same data always give the same interval."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agentgym_cli.report.statistics.intervals import LEVEL, Interval

SEED = 20_250_101
DRAWS = 4_000
_AT_ONCE = 2_000_000
"""Most numbers of one array of draws."""

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def ratio_bootstrap(weights: Counts, x: Floats, n: Floats) -> Interval | None:
    """Percentile interval of sum(x) / sum(n) over tasks.

    Args:
        weights: how many tasks are alike, shape (C,); drawing tasks one by one is a multinomial draw of how often each kind comes.
        x, n: numerator and denominator within one such task, shape (C,).

    Returns:
        None with fewer than two tasks with n > 0, or when all of them have the same x / n: drawing them again tells nothing.
    """
    kept = (weights > 0) & (n > 0)
    weights, x, n = weights[kept], x[kept], n[kept]
    tasks = int(weights.sum())
    if tasks < 2 or np.ptp(x / n) == 0:
        return None
    draws = _draws(tasks, weights)
    low, high = _ends(draws @ x / (draws @ n))
    return Interval(low=low, high=high, method="cluster bootstrap")


def mean_bootstrap(values: Floats) -> Interval | None:
    """Percentile interval of the mean of one number per task, shape (tasks,); None with fewer than two, or when all are equal."""
    if values.size < 2 or np.ptp(values) == 0:
        return None
    kinds, weights = np.unique(values, return_counts=True)
    low, high = _ends(_draws(int(values.size), weights) @ kinds / values.size)
    return Interval(low=low, high=high, method="cluster bootstrap")


def _draws(tasks: int, weights: Counts) -> Floats:
    """How often each kind of task comes in each draw, shape (draws, C)."""
    rng = np.random.default_rng(SEED)
    draws = max(1_000, min(DRAWS, _AT_ONCE // weights.size))
    return rng.multinomial(tasks, weights / tasks, size=draws).astype(np.float64)


def _ends(values: Floats) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
