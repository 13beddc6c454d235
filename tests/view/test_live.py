"""How far a journal is ahead: by sizes, of plain files in plain folders of the folder of runs alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.view.live import bytes_ahead


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    journal = tmp_path / "runs" / "r1" / "journal"
    journal.mkdir(parents=True)
    (journal / "0001.jsonl").write_bytes(b"x" * 100)
    (journal / "0002.jsonl").write_bytes(b"x" * 50)
    (journal / "notes.jsonl").write_bytes(b"x" * 7)
    return tmp_path / "runs"


def test_what_is_not_loaded_is_counted_over_all_segments(runs: Path) -> None:
    assert bytes_ahead(runs, "r1", {1: 90}) == 60
    assert bytes_ahead(runs, "r1", {1: 100, 2: 50}) == 0
    assert bytes_ahead(runs, "r1", {1: 200, 2: 50}) == 0


def test_a_run_without_a_folder_is_not_known(runs: Path) -> None:
    assert bytes_ahead(runs, "r2", {}) is None


@pytest.mark.parametrize("name", ["", ".", "..", "../runs/r1", "/etc", "a/b", "a\\b", "r1\0", "x" * 5000])
def test_promise_11_an_odd_name_leads_nowhere(runs: Path, name: str) -> None:
    assert bytes_ahead(runs, name, {}) is None


def test_promise_11_no_symbolic_link_is_followed(runs: Path) -> None:
    (runs / "linked").symlink_to(runs / "r1")
    (runs / "r3").mkdir()
    (runs / "r3" / "journal").symlink_to(runs / "r1" / "journal")
    (runs / "r4" / "journal").mkdir(parents=True)
    (runs / "r4" / "journal" / "0001.jsonl").symlink_to(runs / "r1" / "journal" / "0001.jsonl")
    assert [bytes_ahead(runs, name, {}) for name in ("linked", "r3", "r4")] == [None, None, None]
