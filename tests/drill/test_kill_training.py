"""kill -9 at fifteen drawn moments of a training run: the same results as without.

``python -m benchmarks.kill_drill`` kills thirty times.
"""

from __future__ import annotations

import sys

import pytest

from tests.drill.kills import drill
from tests.drill.plans import TRAINING

pytestmark = [pytest.mark.drill, pytest.mark.torch]


@pytest.mark.timeout(1800)
def test_promise_10_a_training_run_killed_fifteen_times_ends_as_an_uninterrupted_one(tmp_path, capsys):
    summary = drill(TRAINING, tmp_path, kills=15, seed=2)
    with capsys.disabled():
        sys.stdout.write(f"\ntraining\n{summary.table()}\n")
    assert summary.kills.total() == 15
    assert summary.again >= 5, "kills fell behind checkpoints too"
