"""What counts after retries, kills and resumes: nothing scheduled disappears, nothing superseded is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import CheckpointRecord, Record, ScheduledRecord, position
from tests.store.builders import make_attempt, make_metric, make_outcome, make_run, make_scheduled, make_segment, settled, write_journal


def episodes(store: Connection) -> dict[str, str]:
    rows = rows_of(store, "select episode, outcome from episodes_final")
    assert len(rows) == len({episode for episode, _ in rows})
    return dict(rows)


def train(step: int, segment: int, outcome: str, number: int = 0) -> list[Record]:
    return settled(make_scheduled(number, segment=segment, phase="train", split="train", step=step), outcome)


def key(step: int, number: int = 0) -> str:
    return f"train/train/{step}/textcraft_{number}/0"


def test_promise_01_every_scheduled_episode_has_exactly_one_outcome(store: Connection, tmp_path: Path) -> None:
    wanted = ["success", "failure", "infra_error", "missing"]
    records = [record for number, outcome in enumerate(wanted) for record in settled(make_scheduled(number), outcome)]
    load_into(store, write_journal(tmp_path / "r1", [make_run(), make_segment(), *records]))
    assert episodes(store) == {f"eval/test/0/textcraft_{number}/0": outcome for number, outcome in enumerate(wanted)}


def test_promise_01_an_attempt_without_an_outcome_is_missing(store: Connection, tmp_path: Path) -> None:
    scheduled = make_scheduled()
    load_into(store, write_journal(tmp_path / "r1", [make_run(), make_segment(), scheduled, make_attempt(scheduled, "infra_error")]))
    assert rows_of(store, "select outcome, first_outcome, attempts, stop from episodes_final") == [("missing", "missing", 0, None)]


def test_promise_03_a_retry_is_an_attempt_and_never_another_episode(store: Connection, tmp_path: Path) -> None:
    scheduled = make_scheduled()
    first, second = make_attempt(scheduled, "infra_error"), make_attempt(scheduled, "success", attempt=2)
    outcome = make_outcome(second, attempts=2, first="infra_error")
    load_into(store, write_journal(tmp_path / "r1", [make_run(), make_segment(), scheduled, first, second, outcome]))
    assert rows_of(store, "select outcome, first_outcome, attempts, attempt, stop, cause, reward from episodes_final") == [
        ("success", "infra_error", 2, 2, "done", None, 1.0)
    ]
    assert rows_of(store, "select count(*) from attempts_final") == [(2,)]


def test_promise_10_later_steps_are_superseded_kept_and_counted_apart(store: Connection, tmp_path: Path) -> None:
    first = [*train(1, 1, "success"), *train(2, 1, "failure"), *train(3, 1, "failure"), make_metric("loss", 1.0, 2), make_metric("loss", 9.0, 3)]
    second = [*train(3, 2, "success"), make_metric("loss", 0.5, 3, segment=2)]
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(1), *first], [make_segment(2, resumed=2), *second])
    load_into(store, run_dir)
    assert episodes(store) == {key(1): "success", key(2): "failure", key(3): "success"}
    assert rows_of(store, "select step, value from metrics_final order by step") == [(2, 1.0), (3, 0.5)]
    assert rows_of(store, "select kind, segment, phase, step, records from superseded order by kind") == [
        ("attempts", 1, "train", 3, 1),
        ("metrics", 1, "train", 3, 1),
        ("outcomes", 1, "train", 3, 1),
        ("scheduled", 1, "train", 3, 1),
    ]
    assert rows_of(store, "select count(*) from scheduled") == [(4,)]


def test_promise_10_a_superseded_episode_that_did_not_run_again_yet_is_not_counted(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(
        tmp_path / "r1", [make_run(), make_segment(1), *train(1, 1, "success"), *train(2, 1, "success")], [make_segment(2, resumed=1)]
    )
    load_into(store, run_dir)
    assert episodes(store) == {key(1): "success"}


@pytest.mark.slow
def test_promise_10_the_lowest_resume_of_all_later_segments_decides(store: Connection, tmp_path: Path) -> None:
    segments = [
        [make_run(), make_segment(1), *[record for step in range(1, 5) for record in train(step, 1, "failure")]],
        [make_segment(2, resumed=2), *train(3, 2, "success")],
        [make_segment(3, resumed=1), *train(2, 3, "success")],
        [make_segment(4, resumed=2), *train(3, 4, "infra_error")],
    ]
    load_into(store, write_journal(tmp_path / "r1", *segments))
    assert episodes(store) == {key(1): "failure", key(2): "success", key(3): "infra_error"}
    assert rows_of(store, "select segment, kept_to from segment_limits order by segment") == [(1, 1), (2, 1), (3, 2), (4, None)]


def test_promise_10_missing_episodes_are_filled_in_by_a_resume_and_finished_ones_stay(store: Connection, tmp_path: Path) -> None:
    done, cut = make_scheduled(0), make_scheduled(1)
    again = replace(cut, segment=2)
    segments = [
        [make_run(), make_segment(1), *settled(done, "success"), cut, make_attempt(cut, "missing")],
        [make_segment(2, resumed=0), *settled(again, "failure")],
    ]
    load_into(store, write_journal(tmp_path / "r1", *segments))
    assert episodes(store) == {done.episode: "success", cut.episode: "failure"}
    assert rows_of(store, "select outcome from attempts_final order by outcome") == [("failure",), ("success",)]


def test_a_resume_that_does_not_schedule_again_still_settles_the_episode(store: Connection, tmp_path: Path) -> None:
    scheduled = make_scheduled(0, phase="eval_after", step=5)
    late = replace(make_attempt(scheduled), segment=2)
    segments: list[list[Record]] = [[make_run(), make_segment(1), scheduled], [make_segment(2, resumed=5), late, make_outcome(late)]]
    load_into(store, write_journal(tmp_path / "r1", *segments))
    assert rows_of(store, "select segment, outcome, stop from episodes_final") == [(1, "success", "done")]
    assert rows_of(store, "from unscheduled") == []


def test_an_outcome_whose_schedule_is_superseded_is_a_stray(store: Connection, tmp_path: Path) -> None:
    scheduled = make_scheduled(0, phase="train", split="train", step=3)
    late = replace(make_attempt(scheduled), segment=2)
    segments: list[list[Record]] = [[make_run(), make_segment(1), scheduled], [make_segment(2, resumed=1), late, make_outcome(late)]]
    load_into(store, write_journal(tmp_path / "r1", *segments))
    assert rows_of(store, "select kind, segment from unscheduled order by kind") == [("attempts", 2), ("outcomes", 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phase", "step", "resumed", "counts"),
    [
        ("warm_start", 130, 0, True),
        ("warm_start", 130, -1, False),
        ("eval_before", 0, 0, True),
        ("eval", 150, 0, True),
        ("train", 1, 0, False),
        ("train", 40, 40, True),
        ("train", 41, 40, False),
        ("eval_after", 150, 150, True),
        ("eval_after", 150, 125, False),
    ],
)
def test_a_record_counts_exactly_when_its_position_is_not_above_the_resume(
    store: Connection, tmp_path: Path, phase: str, step: int, resumed: int, counts: bool
) -> None:
    scheduled: ScheduledRecord = make_scheduled(0, phase=phase, step=step)
    first = [make_run(), make_segment(1), *settled(scheduled, "success"), make_metric("loss", 1.0, step=step, phase=phase)]
    load_into(store, write_journal(tmp_path / "r1", first, [make_segment(2, resumed=resumed)]))
    assert (position(phase, step) <= resumed) is counts
    for view in ("episodes_final", "attempts_final", "outcomes_final", "metrics_final"):
        assert rows_of(store, f"select count(*) from {view}") == [(int(counts),)]


def test_checkpoints_behind_the_resume_are_superseded(store: Connection, tmp_path: Path) -> None:
    def checkpoint(segment: int, step: int, digest: str) -> CheckpointRecord:
        return CheckpointRecord(run="r1", segment=segment, step=step, path=f"checkpoints/{step}", digest=digest)

    first = [make_run(), make_segment(1), checkpoint(1, 25, "a"), checkpoint(1, 50, "b"), checkpoint(1, 75, "c")]
    load_into(store, write_journal(tmp_path / "r1", first, [make_segment(2, resumed=25), checkpoint(2, 50, "d")]))
    assert rows_of(store, "select step, digest from checkpoints_final order by step") == [(25, "a"), (50, "d")]


def test_runs_do_not_supersede_each_other(store: Connection, tmp_path: Path) -> None:
    load_into(store, write_journal(tmp_path / "r1", [make_run(), make_segment(1), *train(3, 1, "success")]))
    other = write_journal(tmp_path / "r2", [make_run("r2"), make_segment(1, run="r2")], [make_segment(2, resumed=0, run="r2")])
    load_into(store, other)
    assert episodes(store) == {key(3): "success"}
