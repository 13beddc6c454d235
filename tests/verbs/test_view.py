"""``agentgym view``: words that cannot be meant, and tokens read beside what stands before them."""

from __future__ import annotations

import re
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentgym_cli.errors import EnvError, StoreError
from agentgym_cli.store.loader import load
from agentgym_cli.store.snapshot import Snapshots
from agentgym_cli.verbs.tokens import view_tokens
from agentgym_cli.verbs.view import RunTokens, ViewRequest, pieces, view_store
from agentgym_cli.view.app import Viewer
from agentgym_cli.view.requests import Gate
from tests.store.builders import make_run, make_segment, write_journal
from tests.verbs.test_tokens import EPISODE, make_store
from tests.view.conftest import PORT, TOKEN, Reader


def asked(database: Path, run: str | None = None, port: int = 0) -> ViewRequest:
    return ViewRequest(run=run, database=database, runs_dir=database.parent, port=port, browser=False)


def refuse(address: str) -> None:
    raise AssertionError(address)


def test_a_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected a store, got no such file"):
        view_store(asked(tmp_path / "none"), refuse)
    with pytest.raises(StoreError, match="got a folder"):
        view_store(asked(tmp_path), refuse)


@pytest.mark.slow
def test_a_run_that_is_not_there_and_a_port_that_is_taken_are_refused(tmp_path: Path) -> None:
    load(write_journal(tmp_path / "r1", [make_run(), make_segment()]), tmp_path / "store.duckdb")
    with pytest.raises(StoreError, match="there is none in this store"):
        view_store(asked(tmp_path / "store.duckdb", "zzz"), refuse)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(EnvError, match=f"--port {port}: expected a free port on 127.0.0.1"):
            view_store(asked(tmp_path / "store.duckdb", port=port), refuse)


def test_no_place_for_a_copy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(write_journal(tmp_path / "r1", [make_run(), make_segment()]), tmp_path / "store.duckdb")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(EnvError, match="expected a place for temporary files, got: No such file"):
        view_store(asked(tmp_path / "store.duckdb"), refuse)


def words(ids: Sequence[int]) -> str:
    return " ".join(f"w{each}" for each in ids)


def test_a_tokenizer_that_writes_spaces_between_words_keeps_them() -> None:
    assert pieces(words, [1, 2, 3]) == ["w1", " w2", " w3"]


def test_the_pieces_of_a_text_are_the_text() -> None:
    letters = dict(enumerate("The quick brown fox"))
    assert "".join(pieces(lambda ids: "".join(letters[each] for each in ids), list(letters))) == "The quick brown fox"


def test_bytes_of_one_character_show_it_where_it_is_whole() -> None:
    raw = {1: b"a", 2: b"\xe2\x82", 3: b"\xac", 4: b"b"}
    assert pieces(lambda ids: b"".join(raw[each] for each in ids).decode("utf-8", "replace"), [1, 2, 3, 4]) == ["a", "\ufffd", "\u20ac", "b"]


@pytest.mark.slow
def test_the_viewer_marks_the_tokens_that_the_report_counts(tmp_path: Path) -> None:
    database = make_store(tmp_path)
    counts = view_tokens("r1", EPISODE, database, attempt=None).counts
    differing = sum(differ for _, differ in counts.values())
    (tmp_path / "copies").mkdir()
    snapshots = Snapshots(database, tmp_path / "copies")
    page = Reader(Viewer(snapshots, Gate(token=TOKEN, port=PORT), tmp_path / "runs", RunTokens()))("episode", f"run=r1&episode={EPISODE}&view=tokens")
    snapshots.close()
    # Three letters that were sampled one by one, and the ten of a control token's spelling in what the world said.
    assert differing == 13 == len(re.findall(r'<span class="tok [^"]* d" title="', page.text))
    assert f"13 of {sum(tokens for tokens, _ in counts.values())} tokens would be others" in page.text
