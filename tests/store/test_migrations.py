"""A store is brought up to date step by step, or left exactly as it was."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import get_type_hints

import duckdb
import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store.batches import arrow_schema
from agentgym_cli.store.db import Connection, Patience, connect, rows_of
from agentgym_cli.store.insert import insert_segments
from agentgym_cli.store.migrations import MIGRATIONS, migrate, pending
from agentgym_cli.store.opening import open_for_reading, open_for_writing
from agentgym_cli.store.records import SegmentRecord, TokensRecord
from agentgym_cli.store.tables import ATTEMPTS, METRICS, OUTCOMES, SCHEDULED, TABLES, TURNS, Table, columns_of


@pytest.fixture
def connection() -> Iterator[Connection]:
    opened = connect(Path(":memory:"), read_only=False, patience=Patience())
    yield opened
    opened.close()


def shape(connection: Connection) -> list[tuple[object, ...]]:
    return rows_of(connection, "select table_name, column_name, data_type from information_schema.columns order by all")


def m003_more(connection: Connection) -> None:
    connection.execute("create table more (a bigint)")
    connection.execute("insert into more (a) values (1)")


def m003_broken(connection: Connection) -> None:
    m003_more(connection)
    connection.execute("alter table runs add column extra varchar")
    connection.execute("insert into more (a) values ('word')")


def test_a_new_store_records_what_was_applied(connection: Connection) -> None:
    migrate(connection)
    applied = rows_of(connection, "select name, agentgym from migrations order by name")
    assert applied == [
        (name, version("agentgym-cli"))
        for name in ("m001_tables", "m002_views", "m003_drift", "m004_budgets", "m005_episodes", "m006_gates", "m007_versions")
    ]
    assert pending(connection) == []


def test_migrating_again_changes_nothing(connection: Connection) -> None:
    migrate(connection)
    before = shape(connection), rows_of(connection, "from migrations")
    migrate(connection)
    assert (shape(connection), rows_of(connection, "from migrations")) == before


def test_a_failed_migration_leaves_no_trace(connection: Connection) -> None:
    migrate(connection)
    before = shape(connection), rows_of(connection, "from migrations order by name")
    with pytest.raises(duckdb.Error):
        migrate(connection, (*MIGRATIONS, m003_broken))
    assert (shape(connection), rows_of(connection, "from migrations order by name")) == before


def test_a_failed_first_migration_leaves_an_empty_store(connection: Connection) -> None:
    with pytest.raises(duckdb.Error):
        migrate(connection, (m003_broken,))
    assert shape(connection) == []


def test_an_older_store_gets_only_what_it_lacks(connection: Connection) -> None:
    migrate(connection)
    migrate(connection, (*MIGRATIONS, m003_more))
    assert rows_of(connection, "from more") == [(1,)]
    assert pending(connection, (*MIGRATIONS, m003_more)) == []


@pytest.mark.slow
def test_segments_from_before_drift_was_recorded_ran_with_none(tmp_path: Path) -> None:
    database = tmp_path / "old.duckdb"
    with duckdb.connect(str(database)) as old:
        migrate(old, MIGRATIONS[:2])
        old.execute("insert into segments (run, segment, started) values ('r1', 1, 'then')")
    with open_for_writing(database) as opened:
        assert rows_of(opened, "select run, segment, started, drift from segments") == [("r1", 1, "then", [])]
        insert_segments(opened, [SegmentRecord(run="r1", segment=1, resumed_from_step=None, started="then", ended="now", status="finished")])
        assert rows_of(opened, "select ended, drift from segments") == [("now", [])]


@pytest.mark.slow
def test_attempts_from_before_a_runs_progress_was_recorded_say_nothing_of_it_in_tables_and_views(tmp_path: Path) -> None:
    database = tmp_path / "old.duckdb"
    with duckdb.connect(str(database)) as old:
        migrate(old, MIGRATIONS[:3])
        old.execute("insert into segments (run, segment, started, drift) values ('r1', 1, 'then', [])")
        old.execute(
            "insert into attempts select 'r1', 1, 'eval/a/0/t_1/0', 1, 7, 'done', 'success', false, null, '', false, 1, null, 1, 0, 0, 0, null,"
            " 1, 1, 1, 'http://a', '', 'then', null, null, null"
        )
        old.execute("insert into turns select 'r1', 1, 'eval/a/0/t_1/0', 1, 1, 'o', 'x', 'x', true, 1, true, 0, 0, 1, 1")
    with open_for_writing(database) as opened:
        found = "select run_turns, run_tokens_read, run_tokens_sampled, run_seconds from"
        assert rows_of(opened, f"{found} attempts") == rows_of(opened, f"{found} attempts_final") == [(None, None, None, None)]
        assert rows_of(opened, "select cut from turns") == [(False,)]


@pytest.mark.slow
def test_tokens_from_before_versions_were_told_apart_are_all_of_one(tmp_path: Path) -> None:
    database = tmp_path / "old.duckdb"
    with duckdb.connect(str(database)) as old:
        migrate(old, MIGRATIONS[:6])
        before = set(columns_of(ATTEMPTS)) - {"policy_versions", "policy_version_tokens"}
        old.execute(
            "insert into attempts"
            " (run, segment, episode, attempt, outcome, detail, reward, turns_count, final_observation, token_ids, policy_version)"
            " values ('r1', 1, 'train/a/3/t_1/0', 1, 'success', '', 1, 1, '', [1, 2], 2)"
        )
        old.execute("insert into segments (run, segment, started, drift) values ('r1', 1, 'then', [])")
        assert before == {name for name, *_ in old.execute("describe attempts").fetchall()}
    with open_for_writing(database) as opened:
        found = "select token_ids, policy_version, policy_versions, policy_version_tokens from"
        assert rows_of(opened, f"{found} attempts") == rows_of(opened, f"{found} attempts_final") == [([1, 2], 2, None, None)]


@pytest.mark.slow
def test_a_newer_store_is_refused_with_the_version_it_needs(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    with open_for_writing(database) as opened:
        opened.execute("insert into migrations (name, applied, agentgym) values ('m099_future', '', '9.1.0')")
    for opening in (open_for_reading, open_for_writing):
        with pytest.raises(StoreError, match=f"m099_future, expected at most {MIGRATIONS[-1].__name__}") as caught, opening(database):
            pass
        assert "agentgym-cli>=9.1.0" in str(caught.value.hint)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "theirs.duckdb"
    with duckdb.connect(str(database)) as theirs:
        theirs.execute("create table accounts (id bigint)")
    with pytest.raises(StoreError, match="expected an agentgym store, got a database with tables accounts"), open_for_writing(database):
        pass
    with duckdb.connect(str(database)) as theirs:
        assert theirs.execute("show tables").fetchall() == [("accounts",)]


@pytest.mark.slow
def test_reading_an_empty_file_that_duckdb_made_brings_it_up_to_date(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    duckdb.connect(str(database)).close()
    with open_for_reading(database) as opened:
        assert rows_of(opened, "select count(*) from episodes_final") == [(0,)]


ARROW_NAMES = {
    "string": "VARCHAR", "int64": "BIGINT", "uint64": "UBIGINT", "double": "DOUBLE", "bool": "BOOLEAN",
    "list<item: string>": "VARCHAR[]", "list<item: int64>": "BIGINT[]", "list<item: bool>": "BOOLEAN[]", "list<item: double>": "DOUBLE[]",
}  # fmt: skip


UNINDEXED = (SCHEDULED, ATTEMPTS, TURNS, OUTCOMES, METRICS)
"""Tables that grow with the episodes; loading keeps their keys unique."""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_tables_have_the_columns_of_their_records(migrated: Connection, table: Table) -> None:
    found = rows_of(migrated, f'select column_name, column_type, "null", key from (describe {table.name})')
    assert {name: kind for name, kind, *_ in found} == {field.name: ARROW_NAMES[str(field.type)] for field in arrow_schema(table)}
    known = set(columns_of(table))
    if table.imported:
        known = {name for name, hint in get_type_hints(table.imported).items() if "None" not in str(hint)} | set(TURNS.parent)
    optional = {name for name, hint in columns_of(table).items() if "None" in str(hint) or name not in known}
    assert {name for name, _, null, _ in found if null == "YES"} == optional | (set(get_type_hints(TokensRecord)) & set(columns_of(table)))
    assert tuple(name for name, _, _, key in found if key == "PRI") == (() if table in UNINDEXED else table.key)
