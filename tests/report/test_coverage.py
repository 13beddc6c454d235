"""Intervals hold the truth as often as they say, and tests of equal runs find a difference no more often than they may."""

from __future__ import annotations

import pytest

from tests.report.coverage import ALIKE, SHARES, clustered, covered, false_positives, successes, wilson_coverage

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("size", [5, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 400])
def test_wilsons_mean_coverage_is_94_to_97_percent(size: int) -> None:
    assert 0.94 <= wilson_coverage(size).mean() <= 0.97


@pytest.mark.parametrize("samples", [2, 4, 8])
@pytest.mark.parametrize("tasks", [20, 30, 50, 100])
def test_intervals_over_tasks_cover_92_to_97_and_a_half_percent(tasks: int, samples: int) -> None:
    found = {
        (share, alike): covered(clustered(successes(tasks, samples, share, alike, seed)[0], samples), share)
        for seed, share in enumerate(SHARES)
        for alike in ALIKE
    }
    assert {case: coverage for case, coverage in found.items() if not 0.92 <= coverage <= 0.975} == {}


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("tasks", [20, 50])
def test_equal_runs_are_told_apart_at_most_5_and_a_half_percent_of_the_time(tasks: int, samples: int) -> None:
    found = {(share, alike): false_positives(tasks, samples, share, alike, seed) for seed, share in enumerate(SHARES[1:4]) for alike in (0.0, 0.5)}
    assert {case: rate for case, rate in found.items() if rate > 0.055} == {}
