"""A store as people look after it: imported, checked, exported, and what is wrong with it named."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from tests.e2e.commands import run

pytestmark = pytest.mark.e2e


def test_an_imported_run_is_checked_exported_rebuilt_and_found_out_when_it_was_edited(tmp_path: Path) -> None:
    spoken = [{"role": role, "content": role} for role in ("user", "assistant", "user", "assistant", "user")]
    (tmp_path / "logs" / "step1").mkdir(parents=True)
    rows = [{"item_id": number, "conversations": spoken, "reward": number % 2} for number in range(4)]
    (tmp_path / "logs" / "step1" / "0.json").write_text(json.dumps(rows), encoding="utf-8")
    made = run(tmp_path, "store", "import", "logs", "--format", "agentgym-rl", "--run", "theirs", "--env", "textcraft", "--json")
    assert (made.code, made.json["episodes"]) == (0, 4)
    assert run(tmp_path, "store", "rebuild").code == 0
    checked = run(tmp_path, "store", "check", "--json")
    assert (checked.code, checked.json["ok"], checked.json["runs"][0]["success"]) == (0, True, 2)
    exported = run(tmp_path, "store", "export", "--parquet", "out", "--json")
    assert {"attempts": 4, "turns": 4}.items() <= {file["name"]: file["rows"] for file in exported.json}.items()
    assert run(tmp_path, "store", "export", "--parquet", "out").code == 7
    assert "IMPORTED" in run(tmp_path, "report", "theirs").out
    with duckdb.connect(str(tmp_path / "results.duckdb")) as store:
        store.execute("update outcomes set outcome = 'success'")
    edited = run(tmp_path, "store", "check")
    assert edited.code == 7
    assert "wrong: outcomes that differ from their attempt's" in edited.out
