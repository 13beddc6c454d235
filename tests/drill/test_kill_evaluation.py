"""kill -9 at fifteen drawn moments of an evaluation: the same results as without.

``python -m benchmarks.kill_drill`` kills thirty times.
"""

from __future__ import annotations

import sys

import pytest

from tests.drill.kills import drill
from tests.drill.plans import EVALUATION

pytestmark = pytest.mark.drill


@pytest.mark.timeout(1800)
def test_promise_10_an_evaluation_killed_fifteen_times_ends_as_an_uninterrupted_one(tmp_path, capsys):
    summary = drill(EVALUATION, tmp_path, kills=15, seed=1)
    with capsys.disabled():
        sys.stdout.write(f"\nevaluation\n{summary.table()}\n")
    assert summary.kills.total() == 15
    assert summary.cut >= 5
