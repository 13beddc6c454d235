"""What a journal says is what the store says, however often it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_cli.errors import StoreError
from agentgym_cli.store import loader
from agentgym_cli.store.codec import encode
from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import AttemptRecord, CheckpointRecord, OutcomeRecord, ProbeRecord, Record, TokensRecord
from agentgym_cli.store.tables import ATTEMPTS, BY_RECORD, SEGMENTS, TURNS, columns_of
from tests.store.builders import (
    NOW,
    make_attempt,
    make_metric,
    make_outcome,
    make_run,
    make_scheduled,
    make_segment,
    settled,
    write_journal,
)
from tests.store.strategies import built

TOKENS = TokensRecord(token_ids=(1, 2, 3), action_mask=(False, True, True), logprobs=(0.0, -0.1, -1 / 3))
FULL: list[Record] = [
    make_run(seed=2**64 - 1),
    make_segment(),
    *settled(make_scheduled(0), "success", tokens=TOKENS),
    *settled(make_scheduled(1), "infra_error"),
    make_scheduled(2),
    make_metric("loss", 0.1),
    make_metric("reward_mean", None),
    ProbeRecord(run="r1", segment=1, url="http://127.0.0.1:1", name="close_twice", result="known deviation", detail="", seconds=0.25),
    CheckpointRecord(run="r1", segment=1, step=25, path="checkpoints/25", digest="c" * 64),
]


def stored(store: Connection, table: str, columns: list[str]) -> list[dict[str, Any]]:
    found = rows_of(store, f"select {', '.join(columns)} from {table} order by all")
    return [dict(zip(columns, row, strict=True)) for row in found]


def append(run_dir: Path, segment: int, *records: Record) -> None:
    """Add to a journal file as a live run would."""
    with (run_dir / "journal" / f"{segment:04d}.jsonl").open("ab") as file:
        file.write(b"".join(map(encode, records)))


def as_stored(value: object) -> object:
    """DuckDB gives lists where records have tuples."""
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.slow
def test_every_column_of_every_record_is_stored_as_it_was(store: Connection, tmp_path: Path) -> None:
    load_into(store, write_journal(tmp_path / "r1", FULL))
    for record in FULL:
        table = BY_RECORD[type(record)]
        columns = [name for name in columns_of(table) if hasattr(record, name)]
        assert {name: as_stored(getattr(record, name)) for name in columns} in stored(store, table.name, columns)
    assert rows_of(store, "select token_ids, action_mask, logprobs from attempts order by all") == [
        ([1, 2, 3], [False, True, True], [0.0, -0.1, -1 / 3]),
        (None, None, None),
    ]


def test_turns_are_stored_under_their_attempt(store: Connection, tmp_path: Path) -> None:
    load_into(store, write_journal(tmp_path / "r1", FULL))
    attempts = [record for record in FULL if isinstance(record, AttemptRecord)]
    expected = [
        {name: getattr(turn, name, None) if name not in TURNS.parent else getattr(attempt, name) for name in columns_of(TURNS)}
        for attempt in attempts
        for turn in attempt.turns
    ]
    assert stored(store, "turns", list(columns_of(TURNS))) == expected


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=4, deadline=None)
@given(records=st.lists(built(AttemptRecord), min_size=1, max_size=12))
def test_any_attempts_read_back_from_the_store_bit_for_bit(
    migrated: Connection, tmp_path_factory: pytest.TempPathFactory, records: list[AttemptRecord]
) -> None:
    folder = tmp_path_factory.mktemp("run")
    scheduled = make_scheduled(run=folder.name)
    kept = [replace(r, run=folder.name, segment=1, episode=scheduled.episode, attempt=n, turns=()) for n, r in enumerate(records)]
    load_into(migrated, write_journal(folder, [make_run(folder.name), make_segment(run=folder.name), scheduled, *kept]))
    columns = [name for name in columns_of(ATTEMPTS) if hasattr(kept[0], name)]
    found = rows_of(migrated, f"select {', '.join(columns)} from attempts where run = '{folder.name}' order by attempt")
    assert repr(found) == repr([tuple(getattr(record, name) for name in columns) for record in kept])


def test_promise_03_loading_again_changes_nothing(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", FULL)
    first = load_into(store, run_dir)
    assert first.records == len(FULL)
    assert first.added == {
        "runs": 1, "segments": 1, "scheduled": 3, "attempts": 2, "turns": 4, "outcomes": 2, "metrics": 2, "probes": 1, "checkpoints": 1,
    }  # fmt: skip
    second = load_into(store, run_dir)
    assert (second.records, second.added) == (0, {})


@pytest.mark.slow
def test_promise_03_the_same_record_again_changes_nothing(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", [*FULL, *FULL])
    load_into(store, run_dir)
    append(run_dir, 1, *FULL)
    again = load_into(store, run_dir)
    assert (again.records, again.added) == (len(FULL), {})
    assert rows_of(store, "select count(*) from attempts") == [(2,)]


ATTEMPT = make_attempt(make_scheduled(0))
OUTCOME = make_outcome(ATTEMPT)
CONTRADICTIONS: list[tuple[Record, Record, str]] = [
    (make_run(), make_run(seed=2), "table runs: .* under run 'r1'"),
    (make_scheduled(0), replace(make_scheduled(0), horizon=7), "table scheduled: .* run 'r1', segment 1, episode 'eval/test/0/textcraft_0/0'"),
    (ATTEMPT, replace(ATTEMPT, reward=0.5), "table attempts: .* attempt 1"),
    (ATTEMPT, replace(ATTEMPT, turns=(replace(ATTEMPT.turns[0], text="else"), ATTEMPT.turns[1])), "table turns: .* attempt 1, turn 1"),
    (ATTEMPT, replace(ATTEMPT, tokens=TOKENS), "table attempts"),
    (OUTCOME, replace(OUTCOME, outcome="failure"), "table outcomes"),
    (make_metric("loss", 1.0), make_metric("loss", None), "table metrics: .* phase 'train', step 1, name 'loss'"),
    (make_segment(), make_segment(resumed=3), "table segments: .* run 'r1', segment 1"),
    (make_segment(ended=NOW, status="finished"), make_segment(ended=NOW, status="failed"), "table segments"),
    (make_segment(), make_segment(drift=("another model: config.json",)), "table segments: .* run 'r1', segment 1"),
]


@pytest.mark.parametrize(("first", "second", "claim"), CONTRADICTIONS)
def test_promise_03_a_different_record_under_the_same_key_is_an_error(
    store: Connection, tmp_path: Path, first: Record, second: Record, claim: str
) -> None:
    start: list[Record] = [make_run(), make_segment(), make_scheduled(0)]
    run_dir = write_journal(tmp_path / "r1", [*start, first])
    load_into(store, run_dir)
    before = rows_of(store, f"from {BY_RECORD[type(first)].name}")
    append(run_dir, 1, second)
    with pytest.raises(StoreError, match=claim):
        load_into(store, run_dir)
    assert rows_of(store, f"from {BY_RECORD[type(first)].name}") == before


def test_promise_03_two_different_records_in_one_load_are_an_error(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(), make_metric("loss", 1.0), make_metric("loss", 2.0)])
    with pytest.raises(StoreError, match=r"two different records under the key .*'loss'.* of table metrics"):
        load_into(store, run_dir)


def test_only_what_is_new_is_read_and_a_torn_line_waits(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment()])
    load_into(store, run_dir)
    line = encode(make_metric("loss", 1.0))
    path = run_dir / "journal" / "0001.jsonl"
    with path.open("ab") as file:
        file.write(line[:20])
    torn = load_into(store, run_dir)
    assert (torn.records, torn.torn) == (0, 1)
    with path.open("ab") as file:
        file.write(line[20:])
    whole = load_into(store, run_dir)
    assert (whole.records, whole.torn, whole.added) == (1, 0, {"metrics": 1})


def test_a_broken_line_behind_what_is_loaded_is_named_with_its_line_in_the_file(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment()])
    load_into(store, run_dir)
    with (run_dir / "journal" / "0001.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(StoreError, match=r"0001\.jsonl:3: "):
        load_into(store, run_dir)


@pytest.mark.slow
def test_chunks_give_the_same_store(store: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = ("runs", "segments", "scheduled", "attempts", "turns", "outcomes", "metrics", "journals", "episodes_final")
    run_dir = write_journal(tmp_path / "r1", FULL)
    load_into(store, run_dir)
    whole = [rows_of(store, f"from {table} order by all") for table in tables]
    for table in tables:
        store.execute(f"delete from {table}")
    monkeypatch.setattr(loader, "CHUNK_BYTES", 1500)
    load_into(store, run_dir)
    assert [rows_of(store, f"from {table} order by all") for table in tables] == whole


def test_a_segment_is_filled_in_once_and_a_start_sent_again_does_not_empty_it(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment()])
    load_into(store, run_dir)
    append(run_dir, 1, make_segment(ended=NOW, status="finished"), make_segment())
    load_into(store, run_dir)
    assert stored(store, "segments", list(columns_of(SEGMENTS))) == [
        {"run": "r1", "segment": 1, "resumed_from_step": None, "started": NOW, "ended": NOW, "status": "finished", "drift": []}
    ]


@pytest.mark.slow
def test_another_journal_under_the_same_name_is_noticed(store: Connection, tmp_path: Path) -> None:
    path = write_journal(tmp_path / "r1", FULL) / "journal" / "0001.jsonl"
    load_into(store, tmp_path / "r1")
    whole = path.read_bytes()
    for changed in (whole.replace(b"no usable GPU", b"no usable gpu"), whole[:-40]):
        path.write_bytes(changed)
        with pytest.raises(StoreError, match="expected the journal that was loaded before") as caught:
            load_into(store, tmp_path / "r1")
        assert "rebuild" in str(caught.value.hint)


def test_promise_01_an_outcome_of_an_unscheduled_episode_is_refused(store: Connection, tmp_path: Path) -> None:
    for number, stray in enumerate((ATTEMPT, OUTCOME)):
        run_dir = write_journal(tmp_path / f"run{number}", [make_run(), make_segment(), stray])
        with pytest.raises(StoreError, match="episode 'eval/test/0/textcraft_0/0' of run 'r1' was never scheduled"):
            load_into(store, run_dir)


def test_a_record_of_another_run_or_segment_is_refused(store: Connection, tmp_path: Path) -> None:
    for number, stray in enumerate((make_metric("loss", 1.0, run="r2"), make_metric("loss", 1.0, segment=2))):
        run_dir = write_journal(tmp_path / f"run{number}", [make_run(), make_segment(), stray])
        with pytest.raises(StoreError, match=r"expected records of run 'r1', segment 1, got 'r[12]', segment [12]"):
            load_into(store, run_dir)


def test_a_journal_begins_with_its_run_and_a_segment_with_its_record(store: Connection, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"0001\.jsonl:1: expected the run's own record, got SegmentRecord"):
        load_into(store, write_journal(tmp_path / "a", [make_segment()]))
    with pytest.raises(StoreError, match="expected the record of segment 1 before other records"):
        load_into(store, write_journal(tmp_path / "b", [make_run(), make_metric("loss", 1.0)]))


def test_a_run_that_was_killed_before_its_first_line_loads_as_nothing(store: Connection, tmp_path: Path) -> None:
    report = load_into(store, write_journal(tmp_path / "r1", []))
    assert (report.run, report.records, report.added) == (None, 0, {})


def test_promise_10_a_run_that_was_killed_in_its_first_line_is_loaded_from_its_next_segment(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", [], [make_run(), make_segment(2, resumed=-1), *settled(make_scheduled(segment=2), "success")])
    (run_dir / "journal" / "0001.jsonl").write_bytes(encode(make_run())[:50])
    report = load_into(store, run_dir)
    assert (report.run, report.torn) == ("r1", 1)
    assert rows_of(store, "select outcome from episodes_final") == [("success",)]


def test_a_folder_without_a_journal_is_named(store: Connection, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no journal"):
        load_into(store, tmp_path)


@pytest.mark.slow
def test_several_runs_share_one_store(store: Connection, tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        records: list[Record] = [make_run(run), make_segment(run=run), *settled(make_scheduled(0, run=run), "success")]
        load_into(store, write_journal(tmp_path / run, records))
    assert rows_of(store, "select run, outcome, count(*) from episodes_final group by all order by all") == [
        ("r1", "success", 1),
        ("r2", "success", 1),
    ]


def test_promise_11_hostile_text_is_stored_as_text(store: Connection, tmp_path: Path) -> None:
    hostile = "'); drop table runs; -- \x1b[2J \x00 <script> \u202e"
    attempt = make_attempt(make_scheduled(0), final_observation=hostile, detail=hostile)
    load_into(store, write_journal(tmp_path / "r1", [make_run(), make_segment(), make_scheduled(0), attempt]))
    assert rows_of(store, "select final_observation, detail from attempts") == [(hostile, hostile)]
    assert rows_of(store, "select count(*) from runs") == [(1,)]


def test_outcomes_are_typed_as_records(store: Connection, tmp_path: Path) -> None:
    load_into(store, write_journal(tmp_path / "r1", FULL))
    found = stored(store, "outcomes", list(columns_of(BY_RECORD[OutcomeRecord])))
    assert [OutcomeRecord(**row) for row in found] == [record for record in FULL if isinstance(record, OutcomeRecord)]
