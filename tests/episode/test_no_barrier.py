"""Episodes of a served policy never wait for each other."""

from __future__ import annotations

import statistics

import pytest

from tests.episode.heavy_tail import in_lock_step, latencies, without_barrier

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_promise_07_a_served_schedule_lasts_as_long_as_its_longest_episode(seed):
    spans = without_barrier(latencies(256, 10, seed=seed))
    assert spans.whole / spans.longest == pytest.approx(1.0, abs=1e-9)


def test_a_loop_in_lock_step_pays_for_the_slowest_step_of_every_turn():
    steps = latencies(256, 10, seed=1)
    assert in_lock_step(steps).whole == pytest.approx(sum(max(turn) for turn in zip(*steps, strict=True)))
    assert in_lock_step(steps).whole > 3 * without_barrier(steps).whole


def test_the_latencies_have_the_tail_that_they_say():
    drawn = sorted(seconds for episode in latencies(2000, 10, seed=4) for seconds in episode)
    assert statistics.median(drawn) == pytest.approx(0.020, rel=0.05)
    assert drawn[int(0.99 * len(drawn))] == pytest.approx(2.0, rel=0.1)
