"""A store that cannot be used: refused before a run where it never can, and no success where it could not be loaded at the end."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from agentgym_cli.cli import main
from agentgym_cli.cli.show import run_and_report
from agentgym_cli.cli.show_runs import run_all_and_report
from agentgym_cli.errors import ExitCode, StoreError
from agentgym_cli.store.opening import open_for_writing
from agentgym_cli.verbs.prepare import prepare
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.request import PolicyChoice, Request
from agentgym_cli.verbs.segment import Finished, open_segment
from tests.verbs.frozen_runs import started, toy


def asked(folder: Path, database: Path) -> Request:
    return Request(target=toy(folder), overrides=[], runs_dir=folder / "my runs", database=database, policy=PolicyChoice(kind="oracle"))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("folder", "expected a file for the store, got a folder"),
        ("garbage", "expected a store, got a file of another kind"),
        ("below a file", "expected a place that can be written, got"),
    ],
)
def test_promise_09_a_store_that_can_never_be_loaded_is_refused_before_anything_starts(tmp_path: Path, what: str, said: str) -> None:
    database = tmp_path / "x.duckdb"
    _ = database.mkdir() if what == "folder" else database.write_text("no store\n" * 1000)
    database = database / "y.duckdb" if what == "below a file" else database
    with pytest.raises(StoreError, match=said) as caught:
        prepare(asked(tmp_path, database), verb="eval", progress=Silent())
    assert caught.value.exit_code == ExitCode.STORE
    assert not (tmp_path / "my runs").exists()


@pytest.mark.slow
def test_a_store_that_another_holds_is_no_reason_not_to_start(tmp_path: Path) -> None:
    database = tmp_path / "x.duckdb"
    with open_for_writing(database):
        assert prepare(asked(tmp_path, database), verb="eval", progress=Silent()).database == database


def ended(folder: Path) -> Finished:
    """A run without an episode whose store became a folder while it was played."""
    run = started(toy(folder))
    run.database.mkdir()
    with open_segment(run, verb="eval", policy="oracle", resumed_from_step=None, progress=Silent()) as (recorder, _):
        pass
    return Finished(prepared=run, degraded="infra share", store_trouble=recorder.store_trouble)


@pytest.mark.slow
def test_a_run_whose_store_could_not_be_loaded_says_so_to_machines_and_exits_7(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = ended(tmp_path)
    with pytest.raises(StoreError) as caught:
        run_and_report(lambda request, progress: finished, asked(tmp_path, finished.prepared.database), as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert (said["run"], said["folder"], said["report"]) == (finished.prepared.name, str(finished.prepared.folder), None)
    assert (said["problem"], said["next"]) == (caught.value.message, caught.value.hint)
    assert caught.value.exit_code == ExitCode.STORE


@pytest.mark.slow
def test_one_of_several_runs_whose_store_could_not_be_loaded_fails_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = ended(tmp_path)
    with pytest.raises(StoreError, match="played and kept, but not reported"):
        run_all_and_report(lambda request, progress: finished, [asked(tmp_path, finished.prepared.database)] * 2, as_json=True)
    assert [each["run"] for each in json.loads(capsys.readouterr().out)] == [finished.prepared.name] * 2


@pytest.mark.slow
def test_the_hint_of_a_run_that_waits_for_its_store_works_when_it_is_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = ended(tmp_path / "a folder")
    finished.prepared.database.rmdir()
    hint = finished.unloaded(StoreError("held")).hint
    assert hint is not None
    rebuild, report = (shlex.split(part) for part in hint.removeprefix("once it can: ").split(" && "))
    assert (rebuild[0], main._run(rebuild[1:])) == ("agentgym", 0)
    assert (report[0], main._run(report[1:])) == ("agentgym", 0)
    assert finished.prepared.name in capsys.readouterr().out
