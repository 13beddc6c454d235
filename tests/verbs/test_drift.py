"""A run goes on with what it was frozen with, or says in its records that it did not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentgym_cli.errors import LockError, RecipeError
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import SegmentRecord
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.segment import open_segment
from tests.recipe.builders import MANIFEST, has
from tests.verbs.frozen_runs import PROMPTED, change, prepared, started, toy

pytestmark = pytest.mark.slow

LOCKED = PROMPTED.replace("{kind: local, stack: cpu}", "{kind: local, stack: verl-cuda, drift: error}")
"""In a stack that no test runs in."""


def segment(run: Prepared, policy: str = "oracle") -> None:
    """Open and close a segment of a run."""
    with open_segment(run, verb="eval", policy=policy, resumed_from_step=0 if run.resumed else None, progress=Silent()):
        pass


def drifts(run: Prepared) -> list[tuple[str, ...]]:
    """What each segment's records say of drift, the end's like the beginning's."""
    found: dict[int, set[tuple[str, ...]]] = {}
    for record in read_journal(run.folder):
        if isinstance(record, SegmentRecord):
            found.setdefault(record.segment, set()).add(record.drift)
    return [drift for _, (drift,) in sorted(found.items())]


def test_a_frozen_run_is_played_as_it_is_when_nothing_has_changed(tmp_path: Path) -> None:
    run = started(toy(tmp_path))
    again = prepared(run.folder / FROZEN_FILE)
    assert (again.frozen.digest, again.allowed, again.resumed) == (run.frozen.digest, (), False)
    resumed = prepared(run.folder, resume=True)
    assert (resumed.folder, resumed.allowed, resumed.resumed) == (run.folder, (), True)


@pytest.mark.parametrize("resume", [False, True])
def test_promise_07_a_run_whose_files_changed_is_refused_and_the_key_is_named(tmp_path: Path, resume: bool) -> None:
    run = started(toy(tmp_path))
    change(tmp_path)
    with pytest.raises(RecipeError, match=r"changed since: prompt: told\.txt") as caught:
        prepared(run.folder if resume else run.folder / FROZEN_FILE, resume=resume)
    assert "--allow-drift" in str(caught.value.hint)


@pytest.mark.parametrize("resume", [False, True])
def test_promise_07_drift_that_is_allowed_is_warned_of_and_recorded_with_its_segment(tmp_path: Path, resume: bool) -> None:
    run = started(toy(tmp_path))
    segment(run)
    change(tmp_path)
    progress = Silent()
    target = run.folder if resume else run.folder / FROZEN_FILE
    again = started(target, resume=resume, allow_drift=True)
    prepared(target, resume=resume, allow_drift=True, progress=progress)
    (sentence,) = again.allowed
    was, now = run.frozen.parts["prompt"]["told.txt"][:12], freeze(resolve(str(tmp_path / "toy.yaml"), survey=has())).parts["prompt"]["told.txt"][:12]
    assert sentence == f"another prompt: told.txt (frozen {was}, then {now})"
    assert f"drift allowed: {sentence}" in progress.warnings
    segment(again)
    assert drifts(again) == ([(), (sentence,)] if resume else [(sentence,)])
    assert again.frozen.digest == run.frozen.digest


def test_changed_task_lists_are_played_as_they_are_now(tmp_path: Path) -> None:
    run = started(toy(tmp_path))
    (tmp_path / "tasks.csv").write_text(MANIFEST.replace("2,test,depth 2,door,2222222222222222", "2,test,depth 2,door,3333333333333333"))
    again = prepared(run.folder, resume=True, allow_drift=True)
    assert [task.digest for task in again.evaluation_tasks["test"]] == ["3" * 16]
    assert again.allowed[0].startswith("another tasks.evaluation.test: rows (frozen ")


def test_another_order_of_tasks_is_said_to_be_one(tmp_path: Path) -> None:
    run = started(toy(tmp_path))
    head, first, second, *rest = MANIFEST.splitlines(keepends=True)
    (tmp_path / "tasks.csv").write_text("".join([head, second, first, *rest]))
    with pytest.raises(RecipeError, match=r"tasks\.train: order \(the same tasks in another order\)"):
        prepared(run.folder, resume=True)


def test_a_drifted_lock_that_is_an_error_is_let_through_and_recorded(tmp_path: Path) -> None:
    recipe = toy(tmp_path, LOCKED)
    with pytest.raises(LockError):
        prepared(recipe)
    run = started(recipe, allow_drift=True)
    (sentence,) = run.allowed
    assert sentence.startswith("another interpreter: lockfiles/verl-cuda.txt: expected the locked versions, got ")
    assert len(sentence) < 400
    segment(run)
    assert drifts(run) == [(sentence,)]


def test_a_lock_that_only_warns_is_no_drift_that_was_allowed(tmp_path: Path) -> None:
    run = prepared(toy(tmp_path, LOCKED.replace("drift: error", "drift: warn")), allow_drift=True)
    assert run.allowed == ()
    assert run.drift is not None


def test_promise_07_a_resume_with_another_frozen_run_in_the_folder_is_refused_and_the_keys_are_named(tmp_path: Path) -> None:
    recipe = toy(tmp_path)
    run = started(recipe)
    segment(run)
    other = started(recipe, "seed=2", "evaluation.horizon=5")
    shutil.copy(other.folder / FROZEN_FILE, run.folder / FROZEN_FILE)
    with pytest.raises(RecipeError, match=r"got frozen\.json of another, digest [0-9a-f]{12}: other evaluation\.horizon, seed") as caught:
        segment(prepared(run.folder, resume=True, allow_drift=True))
    assert "put its own frozen.json back" in str(caught.value.hint)


def test_a_resume_with_another_policy_is_refused_drift_or_not(tmp_path: Path) -> None:
    run = started(toy(tmp_path))
    segment(run)
    with pytest.raises(RecipeError, match="with policy random"):
        segment(prepared(run.folder, resume=True, allow_drift=True), policy="random")


def test_overrides_of_a_frozen_run_are_refused(tmp_path: Path) -> None:
    run = started(toy(tmp_path))
    with pytest.raises(RecipeError, match="expected no overrides of a frozen run, got 'seed=2'"):
        prepared(run.folder / FROZEN_FILE, "seed=2")
