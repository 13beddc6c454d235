"""What goes wrong is said, with every header, and hides nothing else: damage, time, bad runs, a store made again, memory."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from agentgym_cli.store.db import Patience, rows_of
from agentgym_cli.store.loader import load, load_into
from agentgym_cli.store.opening import open_for_writing
from agentgym_cli.store.rebuild import rebuild
from agentgym_cli.store.records import AttemptRecord, Record
from agentgym_cli.store.snapshot import Snapshots
from agentgym_cli.view import app
from agentgym_cli.view.app import Viewer
from agentgym_cli.view.frame import Asked, Kept
from agentgym_cli.view.requests import POLICY, Answer, Gate
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, make_turn, settled, write_journal
from tests.view.conftest import PORT, TOKEN, Reader, Spelled
from tests.view.test_pages import row_of

UGLY = {
    "deep": "[" * 50_000,
    "nested": '{"config":' * 900 + "1" + "}" * 900,
    "number": '{"config":{"budgets":{"episode_seconds":1' + "0" * 4_000 + "}}}",
    "digits": '{"config":{"train":{"steps":1' + "0" * 5_000 + "}}}",
    "count": '{"parts":{"tasks.evaluation.test":{"count":"1' + "0" * 5_000 + '"}}}',
    "list": "[]",
    "none": "",
}


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


def reader(database: Path, copies: Path, every: float = 0.0) -> Reader:
    snapshots = Snapshots(database, copies, every=every, patience=Patience(seconds=0.0), prompt=60)
    return Reader(Viewer(snapshots, Gate(token=TOKEN, port=PORT), database.parent / "runs", Spelled()))


@pytest.fixture(scope="module")
def ugly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Runs whose frozen text is no frozen run, one whose outcome stands outside its schedule, and a good one."""
    folder = tmp_path_factory.mktemp("ugly")
    with open_for_writing(folder / "results.duckdb") as connection:
        for name, frozen in UGLY.items():
            records = [make_run(name, frozen=frozen), make_segment(run=name), *settled(make_scheduled(0, run=name), "success")]
            load_into(connection, write_journal(folder / "runs" / name, records))
        late = make_scheduled(0, run="stray", phase="train", step=2)
        again = [make_segment(2, 1, "stray"), *settled(replace(late, segment=2), "success")[1:]]
        load_into(connection, write_journal(folder / "runs" / "stray", [make_run("stray"), make_segment(run="stray"), late], again))
        load_into(
            connection,
            write_journal(folder / "runs" / "good", [make_run("good"), make_segment(run="good"), *settled(make_scheduled(0, run="good"), "success")]),
        )
    (folder / "copies").mkdir()
    made = reader(folder / "results.duckdb", folder / "copies")
    yield made
    made.viewer.snapshots.close()


def test_a_run_that_cannot_be_read_hides_no_other(ugly: Reader) -> None:
    page = ugly("")
    assert page.status == 200
    for name in (*UGLY, "good"):
        assert "100.0% 1 of 1" in row_of(page.text, f"{name} textcraft_grpo")
    assert "expected every record to be scheduled" in row_of(page.text, "stray textcraft_grpo")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(UGLY))
def test_pages_of_a_run_that_was_frozen_oddly_are_shown(ugly: Reader, name: str) -> None:
    episode = f"run={name}&episode=eval/test/0/textcraft_0/0"
    found = [("run", f"run={name}"), ("episodes", f"run={name}"), ("episode", episode), ("export.html", episode), ("report", f"run={name}")]
    assert [(path, ugly(path, query).status) for path, query in found] == [(path, 200) for path, _ in found]


def test_a_run_that_cannot_be_believed_is_a_page_that_says_so(ugly: Reader) -> None:
    page = ugly("run", "run=stray")
    assert (page.status, "expected every record to be scheduled" in page.text) == (503, True)


def one_run(folder: Path, *records: Record, name: str = "r1") -> Path:
    load(write_journal(folder / "runs" / name, [make_run(name), make_segment(run=name), *records]), folder / "results.duckdb")
    return folder / "results.duckdb"


def test_a_question_that_takes_too_long_is_a_page_that_says_so(tmp_path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(asked: Asked) -> Answer:
        rows_of(asked.reading.connection, "select count(*) from range(1000000000) a, range(1000) b where a.range % 7 = b.range % 5")
        raise AssertionError("it is broken off")

    monkeypatch.setattr(app, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(app, "_PAGES", {"": slow})
    read = reader(one_run(tmp_path), copies)
    page = read("")
    assert (page.status, page.headers["content-security-policy"]) == (503, POLICY)
    assert "the question took longer than 0.05 s" in page.text and str(copies) not in page.text
    read.viewer.snapshots.close()


def damage(database: Path) -> None:
    """Turn some bytes of every block but the first over: the store opens, and nothing in it can be read."""
    raw = bytearray(database.read_bytes())
    for place in range(12_288 + 262_144 + 1000, len(raw), 262_144):
        raw[place : place + 100] = bytes(255 - each for each in raw[place : place + 100])
    database.write_bytes(raw)


@pytest.mark.slow
def test_a_store_that_was_damaged_from_the_start_is_said_on_every_page_without_its_copy(tmp_path: Path, copies: Path) -> None:
    database = one_run(tmp_path, *settled(make_scheduled(0), "success"))
    damage(database)
    read = reader(database, copies)
    for path, query in (("", ""), ("run", "run=r1"), ("export.html", "run=r1&episode=eval/test/0/textcraft_0/0")):
        page = read(path, query)
        assert (page.status, page.headers["content-security-policy"]) == (503, POLICY)
        assert "Corrupt database file" in page.text and str(copies) not in page.text
    read.viewer.snapshots.close()


@pytest.mark.slow
def test_a_store_that_is_damaged_later_leaves_the_last_good_copy_and_every_page_and_poll_says_why(tmp_path: Path, copies: Path) -> None:
    database = one_run(tmp_path, *settled(make_scheduled(0), "success"))
    read = reader(database, copies)
    assert "not newer because" not in read("run", "run=r1").text
    damage(database)
    read.viewer.snapshots.clock = lambda: time.monotonic() + 1000
    page, state = read("run", "run=r1"), json.loads(read("state.json").text)
    assert page.status == 200 and "100.0%" in page.text
    assert "not newer because" in page.text and "Corrupt database file" in page.text
    assert "not newer because" in state["said"] and "Corrupt database file" in state["said"]
    read.viewer.snapshots.close()


async def test_what_nobody_foresaw_is_answered_with_every_header(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(asked: Asked) -> Answer:
        raise ZeroDivisionError

    monkeypatch.setattr(app, "_PAGES", {"": broken})
    transport = httpx.ASGITransport(app=read.viewer, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}/{TOKEN}/") as client:
        answer = await client.get("")
    assert (answer.status_code, answer.headers["content-security-policy"]) == (500, POLICY)
    assert "Zero" not in answer.text


@pytest.mark.slow
def test_a_list_of_runs_is_not_that_of_the_store_before_it_was_made_again(tmp_path: Path, copies: Path) -> None:
    database = one_run(tmp_path, *settled(make_scheduled(0), "success"))
    read = reader(database, copies)
    assert "100.0% 1 of 1" in row_of(read("").text, "r1 textcraft_grpo")
    journal = tmp_path / "runs" / "r1" / "journal" / "0001.jsonl"
    before = journal.read_bytes()
    journal.write_bytes(before.replace(b'"success"', b'"failure"').replace(b'"reward":1.0', b'"reward":0.0'))
    assert len(journal.read_bytes()) == len(before)
    rebuild(tmp_path / "runs", database)
    read.viewer.snapshots.clock = lambda: time.monotonic() + 1000
    assert "0.0% 0 of 1" in row_of(read("").text, "r1 textcraft_grpo")
    read.viewer.snapshots.close()


def test_what_is_kept_is_bounded_by_its_bytes() -> None:
    kept, made = Kept(most=100), list[str]()

    def get(key: str, size: int) -> str:
        return kept.get(key, lambda: made.append(key) or key, lambda _: size)  # type: ignore[func-returns-value]

    for key, size in (("a", 40), ("b", 40), ("a", 40), ("c", 40), ("a", 40), ("b", 40), ("large", 101), ("large", 101), ("b", 40)):
        assert get(key, size) == key
    assert made == ["a", "b", "c", "b", "large", "large"]


def test_what_was_true_of_an_older_store_is_not_kept() -> None:
    kept = Kept(most=100)
    assert kept.get("run", lambda: "old", len, stamp="1") == "old"
    assert kept.get("other", lambda: "x" * 90, len, stamp="2") == "x" * 90
    assert kept.get("other", lambda: "made again", len, stamp="2") == "x" * 90
    assert kept.get("run", lambda: "new", len, stamp="2") == "new"


def wide(scheduled_number: int) -> tuple[AttemptRecord, list[Record]]:
    scheduled = make_scheduled(scheduled_number)
    turns = tuple(make_turn(number, observation="\x1b" * 4_000) for number in range(1, 31))
    attempt = replace(make_attempt(scheduled, "success", turns=30), turns=turns)
    return attempt, [scheduled, attempt, make_outcome(attempt)]


@pytest.mark.slow
def test_a_page_of_hostile_turns_is_bounded_and_the_rest_comes_later(tmp_path: Path, copies: Path) -> None:
    read = reader(one_run(tmp_path, *wide(0)[1]), copies)
    page, seen = read("episode", "run=r1&episode=eval/test/0/textcraft_0/0").text, list[int]()
    while True:
        assert len(page) < 2_000_000
        seen += [int(each) for each in re.findall(r'<article[^>]* id="t(\d+)"', page)]
        found = re.search(r'class="more-turns"><a href="/secret-token/turns\?([^"]*)"', page)
        if found is None:
            break
        page = read("turns", found[1].replace("&amp;", "&")).text
    assert seen == list(range(1, 31))
    read.viewer.snapshots.close()
