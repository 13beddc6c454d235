"""A store that cannot be believed is named with what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.store.check import RunCheck, check_store
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import open_for_reading, open_for_writing
from agentgym_cli.store.records import Record
from tests.store.builders import make_metric, make_run, make_scheduled, make_segment, settled, write_journal

pytestmark = pytest.mark.slow

RECORDS: list[Record] = [
    make_run(),
    make_segment(),
    *(record for number, outcome in enumerate(("success", "failure", "infra_error")) for record in settled(make_scheduled(number), outcome)),
    make_scheduled(3),
    make_metric("loss", 1.0),
]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    load(write_journal(tmp_path / "runs" / "r1", RECORDS), tmp_path / "x.duckdb")
    return tmp_path / "x.duckdb"


def checked(database: Path) -> tuple[RunCheck, ...]:
    with open_for_reading(database) as connection:
        return check_store(connection, database.parent / "runs")


def test_promise_12_a_store_that_agrees_with_its_journal_has_no_faults_and_counts_that_sum(database: Path) -> None:
    (check,) = checked(database)
    assert (check.scheduled, check.success, check.failure, check.infra_error, check.missing, check.superseded) == (4, 1, 1, 1, 1, 0)
    assert check.faults == ()
    assert len(check.digest) == 64


FIRST = "'eval/test/0/textcraft_0/0'"
BROKEN = {
    "insert into outcomes from outcomes limit 1": "table outcomes: several rows under one key: 1 eval/test/0/textcraft_0/0",
    f"delete from scheduled where episode = {FIRST}": "attempts of episodes that were never scheduled: eval/test/0/textcraft_0/0",
    f"delete from attempts where episode = {FIRST}": "outcomes whose attempt is not there: eval/test/0/textcraft_0/0",
    f"update outcomes set outcome = 'failure' where episode = {FIRST}": "outcomes that differ from their attempt's: eval/test/0/textcraft_0/0",
    f"delete from turns where episode = {FIRST} and turn = 1": "attempts whose turns are not all there: eval/test/0/textcraft_0/0",
    f"delete from episodes_final where episode = {FIRST}": "rows that episodes_final lacks: eval/test/0/textcraft_0/0",
    f"update episodes_final set outcome = 'failure' where episode = {FIRST}": "rows of episodes_final that the records do not say",
    f"update turns set text = 'else' where episode = {FIRST}": "the store has other turns than the journal",
    "update metrics set value = 2": "the store has other metrics than the journal",
    "update outcomes set attempts = 7": "outcomes of another number of attempts than there are: eval/test/0/textcraft_0/0",
    f"update outcomes set first_outcome = 'infra_error' where episode = {FIRST}": "outcomes that tell of another first attempt",
    "update runs set frozen = '{}'": "the store has other runs than the journal",
    "update segments set drift = ['x']": "the store has other segments than the journal",
    "update attempts set seconds = 9": "the store has other attempts than the journal",
    "update turns set cut = true": "the store has other turns than the journal",
    "insert into servers values ('r1', 1, 1, 'http://127.0.0.1:1', 'back', null, '', 'now')": "the store has other servers than the journal",
    "drop view per_task": "views that are not as they were made: per_task",
    "create or replace view per_task as select 1 as x": "views that are not as they were made: per_task",
}


@pytest.mark.parametrize(("sql", "fault"), BROKEN.items())
def test_an_edited_store_is_found_out(database: Path, sql: str, fault: str) -> None:
    with open_for_writing(database) as connection:
        connection.execute(sql)
    (check,) = checked(database)
    assert any(fault in found for found in check.faults), check.faults


def test_lines_that_are_not_loaded_journals_that_are_not_there_and_runs_that_are_not_in_the_store_are_named(database: Path) -> None:
    runs = database.parent / "runs"
    write_journal(runs / "r2", [make_run("r2")])
    with (runs / "r1" / "journal" / "0001.jsonl").open("ab") as file:
        file.write(b"12345\n")
    first, second = checked(database)
    assert [fault.split(": ")[1] for fault in first.faults] == ["6 bytes of whole lines that are not in the store"]
    assert second.faults == (f"{runs / 'r2'}: its journal is not in the store",)
    (runs / "r1" / "journal" / "0001.jsonl").unlink()
    assert "segment 1: expected its journal file, got none" in checked(database)[0].faults
