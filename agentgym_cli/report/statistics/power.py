"""The smallest difference that data of this size and scatter would have shown: at the 5% level, two-sided, four times in five."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from agentgym_cli.report.statistics.intervals import LEVEL

POWER = 0.8
_REACH = NormalDist().inv_cdf(0.5 + LEVEL / 2) + NormalDist().inv_cdf(POWER)
"""z(0.975) + z(0.80) = 2.80."""


def smallest_paired(tasks: int, squared: float) -> float | None:
    """(z(0.975) + z(0.80)) * sqrt(sum d^2 / m) / sqrt(m), with the scatter of the differences d under no difference (Lachin 1981, eq. 1).

    Args:
        tasks: pairs m.
        squared: sum of the squared differences.

    Returns:
        None when no pair differs, since the scatter is then unknown.
    """
    if tasks == 0 or squared <= 0:
        return None
    return _REACH * sqrt(squared) / tasks


def smallest_apart(variance: float, base_variance: float) -> float | None:
    """(z(0.975) + z(0.80)) * sqrt(v + w) for independent estimates with sampling variances v and w (Lachin 1981); None when both are 0."""
    total = variance + base_variance
    return min(1.0, _REACH * sqrt(total)) if total > 0 else None
