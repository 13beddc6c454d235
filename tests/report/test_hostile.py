"""Foreign text in tables for spreadsheets, and escape sequences of every kind on a terminal."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from agentgym_cli.cli.show import show_rebuilt
from agentgym_cli.cli.show_store import show_checked
from agentgym_cli.recipe.canonical import printed_json
from agentgym_cli.report.csv_episodes import to_csv
from agentgym_cli.report.jsonout import to_json
from agentgym_cli.report.text import for_csv, for_terminal
from agentgym_cli.store.check import RunCheck
from agentgym_cli.store.db import Connection
from agentgym_cli.store.loader import LoadReport
from agentgym_cli.store.rebuild import Rebuilt
from agentgym_cli.store.records import Record
from tests.report.runs import FROZEN, printed, report_of
from tests.store.builders import make_run, make_scheduled, make_segment, settled


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"])
def test_promise_11_a_cell_that_could_be_a_formula_begins_with_an_apostrophe(text: str) -> None:
    assert for_csv(text).startswith("'")


@pytest.mark.parametrize(("text", "cell"), [("craft 1=2", "craft 1=2"), ("", ""), ("a\nb", "a\\nb"), ("a\x1b[2J\u202eb", "a\\x1b[2J\\u202eb")])
def test_other_cells_are_as_they_are_with_every_character_seen(text: str, cell: str) -> None:
    assert for_csv(text) == cell


def test_numbers_are_numbers_and_no_data_is_an_empty_cell() -> None:
    rows = list(csv.reader(StringIO(to_csv(["a", "b", "c", "d", "e"], [[-1.5, None, True, '=HYPERLINK("x"),"', "x,y"]]))))
    assert rows == [["a", "b", "c", "d", "e"], ["-1.5", "", "true", '\'=HYPERLINK("x"),"', "x,y"]]


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[31m", "\x1b[2J", "\x1b[?25l", "\x1b[1;1H", "\x9b31m", "\x1b]0;title\x07", "\x1b]0;title\x1b\\", "\x9d0;title\x9c", "\u200b",
        "\x1b]8;;http://127.0.0.1/\x1b\\", "\x1bc", "\x1b(0", "\x07", "\x08", "\x7f", "\x00", "\x84", "\u202e", "\u2066", "\u200f", "\ufeff",
    ],
)  # fmt: skip
def test_promise_11_no_sequence_that_a_terminal_obeys_gets_through(sequence: str) -> None:
    assert for_terminal(f"be{sequence}fore") == "before"


@pytest.mark.parametrize("sequence", ["\x1bP1$r0m\x1b\\", "\x1b_payload\x1b\\", "\x1b^payload\x1b\\", "\x90payload\x9c"])
def test_strings_for_devices_lose_what_makes_them_so(sequence: str) -> None:
    assert not set(for_terminal(f"a{sequence}b")) & set("\x1b\x90\x9c\x07")


@pytest.mark.parametrize("text", ["\x9b2J", "a\u202eb", "\u200b", "\ud800", "\x7f", "\u2028", "\U000e0041", "\x1b[2J"])
def test_promise_11_json_on_a_screen_holds_no_character_that_a_terminal_obeys(text: str) -> None:
    said = printed_json({text: [text]}, indent=1)
    assert json.loads(said) == {text: [text]}
    assert all(character == "\n" or character.isprintable() for character in said)


def test_letters_of_any_script_stay_readable_in_json() -> None:
    assert printed_json(["caf\u00e9 \u6c34"], indent=1) == '[\n "caf\u00e9 \u6c34"\n]'


def test_promise_11_names_of_runs_are_harmless_where_stores_are_checked_and_rebuilt(capsys: pytest.CaptureFixture[str]) -> None:
    name = "\u202eabc[bold]\x9b2J"
    check = RunCheck(run=name, scheduled=1, success=1, failure=0, infra_error=0, missing=0, superseded=0, digest="d", faults=())
    show_checked([check], Path("store"), as_json=False)
    show_rebuilt(Rebuilt(runs=(LoadReport(run=name, records=1, added={}, torn=0),), set_aside=None), as_json=False)
    said = capsys.readouterr().out
    assert said.count("abc[bold]: ") == 2
    assert not set(said) & {"\u202e", "\x9b"}


def test_sums_that_no_number_holds_are_no_data_in_every_form(store: Connection, tmp_path: Path) -> None:
    """Times and rewards of a journal that somebody made up."""
    records: list[Record] = [make_run(frozen=FROZEN), make_segment()]
    for number in range(4):
        records += settled(make_scheduled(number), "success", reward=1.7e308, seconds=1.7e308, policy_seconds=1e308, env_seconds=1.7e308)
    report = report_of(store, tmp_path / "r1", records)
    assert report.parts[0].spent.seconds == float("inf")
    assert json.loads(to_json(report))["parts"][0]["spent"]["seconds"] is None
    assert "n/a summed over attempts" in " ".join(printed(report).split())
