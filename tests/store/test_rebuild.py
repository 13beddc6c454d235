"""A store made again from journals says what the old one said."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import NotAStore, Patience, StoreBusy, connect, rows_of
from agentgym_cli.store.loader import load
from agentgym_cli.store.migrations import NewerStore
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.rebuild import rebuild
from agentgym_cli.store.tables import TABLES
from tests.store.builders import make_run, make_scheduled, make_segment, settled, write_journal


def contents(database: Path) -> list[object]:
    with open_for_reading(database) as connection:
        return [rows_of(connection, f"from {table.name} order by all") for table in TABLES]


@pytest.mark.slow
def test_promise_12_a_rebuilt_store_equals_the_loaded_one(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    for run in ("r1", "r2"):
        records = [make_run(run), make_segment(run=run), *settled(make_scheduled(run=run), "success")]
        load(write_journal(tmp_path / "runs" / run, records), database)
    loaded = contents(database)
    (tmp_path / "runs" / "notes").mkdir()
    made = rebuild(tmp_path / "runs", database)
    assert made.set_aside is None
    assert [report.run for report in made.runs] == ["r1", "r2"]
    assert contents(database) == loaded
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "x.duckdb"]


@pytest.mark.slow
def test_a_store_that_cannot_be_opened_is_moved_aside(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    run = write_journal(tmp_path / "runs" / "r1", [make_run(), make_segment()])
    for number, name in enumerate(("x.duckdb.damaged", "x.duckdb.damaged.2")):
        broken = b"checksum" + b"DUCK" + b"broken%d" % number * 4000
        database.write_bytes(broken)
        database.with_name("x.duckdb.wal").write_bytes(b"broken")
        assert rebuild(run.parent, database).set_aside == tmp_path / name
        assert (tmp_path / name).read_bytes() == broken
        with open_for_reading(database) as connection:
            assert rows_of(connection, "select run from runs") == [("r1",)]


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("chapter one\n" * 400)
    write_journal(tmp_path / "runs" / "r1", [make_run(), make_segment()])
    with pytest.raises(NotAStore, match="expected a store, got a file of another kind") as caught:
        rebuild(tmp_path / "runs", thesis)
    assert caught.value.hint == "name another file: --store FILE"
    assert thesis.read_text() == "chapter one\n" * 400


@pytest.mark.parametrize("made", ["create table stuff (x int)", "create table migrations (id int)"])
def test_another_programs_database_is_left_alone(tmp_path: Path, made: str) -> None:
    database = tmp_path / "x.duckdb"
    connection = connect(database, read_only=False, patience=Patience())
    connection.execute(made)
    connection.close()
    write_journal(tmp_path / "runs" / "r1", [make_run(), make_segment()])
    before = database.read_bytes()
    with pytest.raises(NotAStore, match="expected an agentgym store, got a database with tables"):
        rebuild(tmp_path / "runs", database)
    assert database.read_bytes() == before


@pytest.mark.slow
def test_a_newer_store_is_not_made_older(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    run = write_journal(tmp_path / "runs" / "r1", [make_run(), make_segment()])
    load(run, database)
    connection = connect(database, read_only=False, patience=Patience())
    connection.execute("insert into migrations values ('m999_tomorrow', 'later', '9.0')")
    connection.close()
    with pytest.raises(NewerStore, match="has migration m999_tomorrow"):
        rebuild(run.parent, database)
    with pytest.raises(NewerStore), open_for_reading(database):
        pass


@pytest.mark.slow
def test_a_journal_that_cannot_be_believed_leaves_the_old_store(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    load(write_journal(tmp_path / "runs" / "r1", [make_run(), make_segment()]), database)
    write_journal(tmp_path / "runs" / "r2", [make_segment()])
    before = contents(database)
    with pytest.raises(StoreError, match=r"r2/journal/0001\.jsonl:1"):
        rebuild(tmp_path / "runs", database)
    assert contents(database) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "x.duckdb"]


@pytest.mark.slow
def test_runs_of_another_folder_that_shares_the_store_are_not_forgotten(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    load(write_journal(tmp_path / "runs" / "r1", [make_run("r1"), make_segment(run="r1")]), database)
    load(write_journal(tmp_path / "others" / "r2", [make_run("r2"), make_segment(run="r2")]), database)
    before = contents(database)
    with pytest.raises(StoreError, match=r"expected journals of all runs in .*x\.duckdb, got none of r2") as caught:
        rebuild(tmp_path / "runs", database)
    assert caught.value.hint == "bring their folders here, or move the store away first to leave them out"
    assert contents(database) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others", "runs", "x.duckdb"]


@pytest.mark.slow
def test_a_held_store_is_not_replaced(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    load(write_journal(tmp_path / "runs" / "r1", [make_run(), make_segment()]), database)
    held = connect(database, read_only=True, patience=Patience())
    with pytest.raises(StoreBusy):
        rebuild(tmp_path / "runs", database, Patience(seconds=0))
    held.close()


def test_a_folder_without_runs_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected folders with a journal, got none"):
        rebuild(tmp_path, tmp_path / "x.duckdb")
