"""A wall clock that steps back changes no order: segments count by number, episodes by place."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.store.digest import results_digest
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import find_run, segments
from agentgym_cli.store.records import Record
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, write_journal

pytestmark = pytest.mark.slow

EARLY, NOON, LATE = "2025-01-01T11:00:00+00:00", "2025-01-01T12:00:00+00:00", "2025-01-01T13:00:00+00:00"


def two_segments(folder: Path, first: str, second: str) -> Path:
    """Segment 1 fails an episode of step 2, segment 2 resumes from step 1 and solves it; each at its time."""
    told, again = make_scheduled(phase="train", step=2), make_scheduled(phase="train", step=2, segment=2)
    failed, solved = make_attempt(told, "failure", ended=first), make_attempt(again, "success", ended=second)
    one: list[Record] = [make_run(created=first), make_segment(1, started=first), told, failed, make_outcome(failed)]
    one.append(make_segment(1, started=first, ended=first, status="interrupted"))
    two: list[Record] = [make_segment(2, resumed=1, started=second), again, solved, make_outcome(solved)]
    two.append(make_segment(2, resumed=1, started=second, ended=second, status="finished"))
    return write_journal(folder, one, two)


@pytest.mark.parametrize(("first", "second"), [(EARLY, LATE), (LATE, EARLY), (NOON, NOON)])
def test_promise_10_the_later_segment_counts_whatever_the_clock_said(tmp_path, first, second):
    database = tmp_path / "store.duckdb"
    load(two_segments(tmp_path / "r1", first, second), database)
    with open_for_reading(database) as connection:
        run = find_run(connection, "r1")
        assert (run.status, run.ended, run.segments) == ("finished", second, 2)
        assert [segment.segment for segment in segments(connection, "r1")] == [1, 2]
        outcome = connection.execute("select outcome, segment from episodes_final where run = 'r1'").fetchall()
        assert outcome == [("success", 2)]


def test_times_are_no_part_of_the_results(tmp_path):
    digests = set()
    for place, (first, second) in enumerate([(EARLY, LATE), (LATE, EARLY)]):
        database = tmp_path / f"{place}.duckdb"
        load(two_segments(tmp_path / str(place), first, second), database)
        with open_for_reading(database) as connection:
            digests.add(results_digest(connection, "r1").whole)
    assert len(digests) == 1
