"""How often the intervals and tests of reports are right: by enumeration where that can be, else over simulated data sets.

python -m benchmarks.coverage
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from agentgym_cli.report.statistics.bootstrap import ratio_bootstrap
from agentgym_cli.report.statistics.intervals import Interval, TaskSums, over_tasks, t_quantile, wilson
from agentgym_cli.report.statistics.paired import mcnemar, sign_flips

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DATA_SETS = 2_000
ALIKE = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Correlation of the episodes of one task: 0 makes tasks equally hard, 1 would make each a certain success or failure."""
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)


def wilson_coverage(size: int, points: int = 2_000) -> Floats:
    """Chance that Wilson's interval of ``size`` episodes holds p, for ``points`` values of p evenly spread over (0, 1)."""
    ends = [wilson(count, size) for count in range(size + 1)]
    low, high = (np.array([getattr(end, name) for end in ends]) for name in ("low", "high"))
    p = (np.arange(points) + 0.5)[:, None] / points
    chances = np.asarray(binom.pmf(np.arange(size + 1), size, p), dtype=np.float64)
    shares: Floats = np.where((low <= p) & (p <= high), chances, 0.0).sum(axis=1)
    return shares


def successes(tasks: int, samples: int, share: float, alike: float, seed: int, runs: int = 1) -> list[Counts]:
    """Successes by task of ``DATA_SETS`` data sets, shape (data sets, tasks), for each of ``runs`` runs on the same tasks."""
    rng = np.random.default_rng(seed)
    spread = (1 - alike) / alike if alike else 0.0
    chances = rng.beta(share * spread, (1 - share) * spread, (DATA_SETS, tasks)) if alike else np.full((DATA_SETS, tasks), share)
    return [rng.binomial(samples, chances) for _ in range(runs)]


def clustered(x: Counts, samples: int) -> list[Interval]:
    """The report's interval of each data set."""
    size = x.shape[1] * samples
    sums, squares = x.sum(axis=1), (x * x).sum(axis=1)
    kinds, which = np.unique(np.stack([sums, squares]), axis=1, return_inverse=True)
    made = [_interval(int(total), size, int(square), samples, x.shape[1]) for total, square in kinds.T]
    return [made[place] for place in which.ravel()]


def _interval(total: int, size: int, square: int, samples: int, tasks: int) -> Interval:
    found = over_tasks(total, size, TaskSums(tasks=tasks, xx=square, xn=total * samples, nn=size * samples))
    assert found is not None
    return found


def covered(intervals: list[Interval], share: float) -> float:
    """Share of the intervals that hold the truth."""
    return float(np.mean([each.low <= share <= each.high for each in intervals]))


def plain_t(x: Counts, samples: int, share: float) -> float:
    """Coverage of mean +- t * error of the task means, as textbooks have it."""
    means = x / samples
    half = t_quantile(x.shape[1] - 1) * means.std(axis=1, ddof=1) / np.sqrt(x.shape[1])
    return float((abs(means.mean(axis=1) - share) <= half).mean())


def bootstrapped(x: Counts, samples: int, share: float, sets: int) -> float:
    """Coverage of the cluster bootstrap, over the first ``sets`` data sets; one without an interval does not cover."""
    hits = 0
    for row in x[:sets]:
        kinds, weights = np.unique(row, return_counts=True)
        found = ratio_bootstrap(weights, kinds.astype(np.float64), np.full(kinds.size, float(samples)))
        hits += found is not None and found.low <= share <= found.high
    return hits / sets


def false_positives(tasks: int, samples: int, share: float, alike: float, seed: int) -> float:
    """Share of pairs of equal runs that the paired test tells apart at the 5% level."""
    base, other = successes(tasks, samples, share, alike, seed, runs=2)
    test: Callable[[Counts], float | None] = _mcnemar if samples == 1 else lambda gaps: sign_flips(gaps / samples, 1 / samples)
    found = [test(gaps) for gaps in other - base]
    return float(np.mean([p is not None and p <= 0.05 for p in found]))


def _mcnemar(gaps: Counts) -> float | None:
    return mcnemar(int((gaps > 0).sum()), int((gaps < 0).sum()))
