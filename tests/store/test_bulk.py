"""Lines in the journal's own form are loaded without being decoded; what they say is what decoding says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.errors import StoreError
from agentgym_cli.store import loader
from agentgym_cli.store.bulk import sort_lines
from agentgym_cli.store.codec import encode
from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import Record, TokensRecord
from tests.store.builders import make_attempt, make_metric, make_outcome, make_run, make_scheduled, make_segment, settled, write_journal

TABLES = ("runs", "segments", "scheduled", "attempts", "turns", "outcomes", "metrics", "episodes_final")
TOKENS = TokensRecord(token_ids=(1, 2, 3), action_mask=(False, True, True), logprobs=(0.0, -0.1, -1 / 3))
EPISODES: list[Record] = [
    *settled(make_scheduled(0, goal='craft "stick"\n\u2028é \\ \x00'), "success", tokens=TOKENS, seed=17_999_999_999_999_999_999),
    *settled(make_scheduled(1), "infra_error", seconds=1e-7, env_seconds=2.5e11),
    *settled(make_scheduled(2), "failure", turns=0),
    make_scheduled(3),
    make_metric("loss", 0.1),
]


@pytest.fixture
def bulk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However small, blocks are loaded in bulk."""
    monkeypatch.setattr(loader, "BULK_BYTES", 0)
    yield


def contents(store: Connection) -> list[object]:
    return [rows_of(store, f"from {table} order by all") for table in TABLES]


def loaded(store: Connection, run_dir: Path) -> list[object]:
    for table in (*TABLES, "journals"):
        store.execute(f"delete from {table}")
    load_into(store, run_dir)
    return contents(store)


@pytest.mark.slow
def test_lines_in_bulk_say_what_decoded_lines_say(store: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(), *EPISODES])
    decoded = loaded(store, run_dir)
    monkeypatch.setattr(loader, "BULK_BYTES", 0)
    assert loaded(store, run_dir) == decoded
    data = b"".join(map(encode, EPISODES))
    assert list(sort_lines(store, data, "r1", 1).kinds) == [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 0]


LINE = encode(make_attempt(make_scheduled(0))).decode()
OTHER_FORMS = {
    "a text for a number": LINE.replace('"attempt":1', '"attempt":"1"'),
    "a number for a text": LINE.replace('"replica":"http://127.0.0.1:1"', '"replica":1'),
    "a flag for a number": LINE.replace('"invalid_actions":0', '"invalid_actions":true'),
    "a fraction for a whole number": LINE.replace('"invalid_actions":0', '"invalid_actions":0.5'),
    "an unknown field": LINE.replace('"detail":""', '"detail":"","more":1'),
    "a missing field": LINE.replace('"detail":"",', ""),
    "an unknown outcome": LINE.replace('"outcome":"success"', '"outcome":"won"'),
    "not a number": LINE.replace('"seconds":1.0', '"seconds":NaN'),
    "a reward of an infra error": LINE.replace('"outcome":"success"', '"outcome":"infra_error"'),
    "another run": LINE.replace('"run":"r1"', '"run":"r2"'),
    "another segment": LINE.replace('"segment":1', '"segment":2'),
    "no whole text": LINE.replace('"detail":""', '"detail":"\udcff"'),
}


@pytest.mark.usefixtures("bulk")
@pytest.mark.parametrize("line", OTHER_FORMS.values(), ids=OTHER_FORMS.keys())
def test_promise_08_what_decoding_refuses_is_not_let_in_by_bulk(store: Connection, tmp_path: Path, line: str) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(), make_scheduled(0)])
    with (run_dir / "journal" / "0001.jsonl").open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape"))
    with pytest.raises(StoreError, match=r"0001\.jsonl"):
        load_into(store, run_dir)
    assert contents(store) == [[] for _ in TABLES]


@pytest.mark.slow
@pytest.mark.usefixtures("bulk")
def test_promise_03_the_same_episodes_again_in_bulk_change_nothing(store: Connection, tmp_path: Path) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(), *EPISODES, *EPISODES])
    assert load_into(store, run_dir).added["attempts"] == 3
    before = contents(store)
    with (run_dir / "journal" / "0001.jsonl").open("ab") as file:
        file.write(b"".join(map(encode, EPISODES)))
    assert load_into(store, run_dir).added == {}
    assert contents(store) == before


ATTEMPT = make_attempt(make_scheduled(0))
DIFFERENT: list[tuple[Record, str]] = [
    (replace(make_scheduled(0), horizon=7), "scheduled"),
    (replace(ATTEMPT, reward=0.5), "attempts"),
    (replace(ATTEMPT, turns=(replace(ATTEMPT.turns[0], text="else"), ATTEMPT.turns[1])), "attempts|turns"),
    (replace(make_outcome(ATTEMPT), outcome="failure"), "outcomes"),
]


@pytest.mark.usefixtures("bulk")
@pytest.mark.parametrize(("second", "table"), DIFFERENT)
@pytest.mark.parametrize("later", [False, True])
def test_promise_03_a_different_episode_under_a_key_in_bulk_is_an_error(
    store: Connection, tmp_path: Path, second: Record, table: str, later: bool
) -> None:
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(), *settled(make_scheduled(0), "success")])
    if later:
        load_into(store, run_dir)
    before = contents(store)
    with (run_dir / "journal" / "0001.jsonl").open("ab") as file:
        file.write(encode(second))
    with pytest.raises(StoreError, match=f"table ({table})|two different records under the key .* of table ({table})"):
        load_into(store, run_dir)
    assert contents(store) == before


@pytest.mark.usefixtures("bulk")
def test_promise_01_an_unscheduled_episode_in_bulk_is_refused(store: Connection, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="episode 'eval/test/0/textcraft_0/0' of run 'r1' was never scheduled"):
        load_into(store, write_journal(tmp_path / "r1", [make_run(), make_segment(), ATTEMPT]))


@pytest.mark.usefixtures("bulk")
def test_a_turn_that_comes_twice_in_an_attempt_is_an_error(store: Connection, tmp_path: Path) -> None:
    twice = replace(ATTEMPT, turns=(ATTEMPT.turns[0], ATTEMPT.turns[0]))
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(), make_scheduled(0), twice])
    with pytest.raises(StoreError, match="table turns"):
        load_into(store, run_dir)


def test_a_load_that_fails_late_leaves_nothing_of_it(store: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "CHUNK_BYTES", 900)
    run_dir = write_journal(tmp_path / "r1", [make_run(), make_segment(), *EPISODES])
    with (run_dir / "journal" / "0001.jsonl").open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(StoreError, match=r"0001\.jsonl:14: "):
        load_into(store, run_dir)
    assert contents(store) == [[] for _ in TABLES]
