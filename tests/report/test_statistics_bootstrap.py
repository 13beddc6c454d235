"""The cluster bootstrap draws whole tasks, always the same, and comes close to the t interval where that holds."""

from __future__ import annotations

import numpy as np
import pytest

from agentgym_cli.report.statistics.bootstrap import mean_bootstrap, ratio_bootstrap
from agentgym_cli.report.statistics.intervals import mean_over_tasks


def test_the_interval_is_near_the_t_interval_of_many_tasks_and_equal_in_every_run() -> None:
    weights, x, n = np.array([40, 80, 80, 50]), np.array([0.0, 1.0, 2.0, 4.0]), np.array([4.0] * 4)
    ours = ratio_bootstrap(weights, x, n)
    expected = mean_over_tasks(250, float(weights @ x) / 4, float(weights @ x**2) / 16)
    assert ours is not None
    assert expected is not None
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high), abs=0.004)
    assert ratio_bootstrap(weights, x, n) == ours


def test_tasks_are_drawn_whole() -> None:
    """Two episodes that always agree tell as much as one."""
    one = ratio_bootstrap(np.array([60, 40]), np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    two = ratio_bootstrap(np.array([60, 40]), np.array([0.0, 2.0]), np.array([2.0, 2.0]))
    assert one is not None
    assert two is not None
    assert (two.low, two.high) == (one.low, one.high)


def test_means_are_drawn_as_they_come() -> None:
    values = np.random.default_rng(3).normal(2.0, 1.0, 400)
    ours = mean_bootstrap(values)
    assert ours is not None
    half = 1.96 * values.std() / 20
    assert (ours.low, ours.high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.01)


def test_drawing_alike_tasks_again_tells_nothing() -> None:
    assert ratio_bootstrap(np.array([9]), np.array([1.0]), np.array([2.0])) is None
    assert ratio_bootstrap(np.array([1, 9]), np.array([1.0, 0.0]), np.array([2.0, 0.0])) is None
    assert mean_bootstrap(np.array([0.5])) is mean_bootstrap(np.array([])) is mean_bootstrap(np.array([1.0, 1.0])) is None
