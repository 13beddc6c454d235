"""The driver's side of learning demonstrations on verl: what the trainer hands in is recorded, and an update on anything else ends the run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentgym_cli.episode.types import Task
from agentgym_cli.errors import LockError, TrainerError
from agentgym_cli.learn.verl.sft.rows import Demonstrated, Lesson
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import CheckpointRecord, MetricRecord
from agentgym_cli.verbs import imitation, served_checks
from agentgym_cli.verbs.history import EMPTY
from agentgym_cli.verbs.imitation import Learning
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.served_checks import ServedModel, require_model_files
from agentgym_cli.verbs.spoken import spoken_dialect
from agentgym_cli.verbs.stored import Stored
from agentgym_cli.verbs.verl_checkpoints import VerlCheckpoint, last_verl_checkpoint

pytestmark = pytest.mark.torch
RECIPE = (
    "profile=rehearsal",
    "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 3}]}",
    "train.updates_per_step=1",
    "train.steps=2",
    "train.tasks_per_step=2",
    "reward.token_cost=0",
)
LESSON = Lesson(
    shown=tuple(Demonstrated(token_ids=(1, 2, 3), action_mask=mask) for mask in ((False, True, True), (False, True, False), (False, False, False))),
    updates=((0, 1), (1, 2)),
)
"""Updates with 3 and 1 action tokens, one demonstration of the second without any."""


@asynccontextmanager
async def learning(folder: Path, *overrides: str) -> AsyncIterator[tuple[Learning, Prepared]]:
    frozen = freeze(resolve("textcraft_grpo.yaml", [*RECIPE, *overrides]))
    run = frozen.run
    (folder / "run" / "verl").mkdir(parents=True)
    prepared = Prepared(
        run=run,
        frozen=frozen,
        name="run",
        folder=folder / "run",
        database=folder / "x.duckdb",
        resumed=False,
        drift=None,
        allowed=(),
        dialect=spoken_dialect(run, beside=frozen.beside),
        train_tasks=(),
        evaluation_tasks={},
    )
    assert run.train is not None
    recorder = Recorder(folder=prepared.folder, run="run", segment=1, database=prepared.database, keep_tokens="none", progress=Silent())
    try:
        yield Learning(prepared, run.train, None, LESSON, recorder, Silent()), prepared
    finally:
        recorder.close()


def numbers(step: int, **other: float | None) -> dict[str, Any]:
    said = {"loss": 2.5, "grad_norm": 0.5, "lr": 9.0, "learning_rate": 0.1, "action_tokens": 3.0 if step == 1 else 1.0, "demonstrations": 2.0}
    return {"do": "metrics", "step": step, "values": {**said, "global_tokens": 6.0, **other}}


def recorded(prepared: Prepared, kind: type) -> list[Any]:
    return [record for record in read_journal(prepared.folder) if isinstance(record, kind)]


async def test_numbers_have_the_names_of_the_local_engine(tmp_path: Path) -> None:
    async with learning(tmp_path) as (work, prepared):
        work.take(numbers(2))
        work.take({"do": "times", "step": 2, "values": {"step_seconds": 1.5, "mfu": 0.25, "perf/max_memory_allocated_gb": 3.0}})
    assert {each.name: each.value for each in recorded(prepared, MetricRecord) if (each.phase, each.step) == ("train", 2)} == {
        "policy_version": 1.0,
        "passes": 4 / 3,
        "loss": 2.5,
        "gradient_norm": 0.5,
        "action_tokens": 1.0,
        "without_action_tokens": 1.0,
        "learning_rate": 0.1,
        "verl/global_tokens": 6.0,
        "time/step_seconds": 1.5,
        "time/verl/mfu": 0.25,
        "time/verl/perf/max_memory_allocated_gb": 3.0,
    }
    assert work.watch.stop is None


@pytest.mark.parametrize(
    ("other", "got"),
    [({"action_tokens": 2.0}, "got 2 with 2"), ({"demonstrations": 1.0}, "got 1 with 3")],
    ids=["other tokens", "a demonstration lost"],
)
async def test_promise_05_an_update_on_other_tokens_than_planned_ends_the_run(tmp_path: Path, other: dict[str, float], got: str) -> None:
    async with learning(tmp_path) as (work, _):
        work.take(numbers(1, **other))
    assert isinstance(work.watch.stop, TrainerError)
    assert "train step 1: expected an update on 2 demonstrations with 3 action tokens" in work.watch.stop.message
    assert got in work.watch.stop.message


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
async def test_a_loss_or_gradient_that_is_not_finite_ends_the_run(tmp_path: Path, name: str) -> None:
    async with learning(tmp_path) as (work, _):
        work.take(numbers(1, **{name: None}))
    assert isinstance(work.watch.stop, TrainerError)
    assert (work.watch.stop.message[:50], work.watch.stop.hint) == ("train step 1: expected a finite loss and gradient,", "lower the learning rate")


TRAINER = """
import json, pathlib
from agentgym_cli.learn.verl.sft.setup import SETUP_FILE, read_sft_setup
from agentgym_cli.store.desk import say_once
told = read_sft_setup(pathlib.Path(SETUP_FILE))
demonstrations, updates = (pathlib.Path(name).read_text().splitlines() for name in ("demonstrations.jsonl", "updates.jsonl"))
for step in range(1, STEPS + 1):
    shown = [json.loads(demonstrations[place]) for place in json.loads(updates[step - 1])]
    values = {"loss": 1.0, "grad_norm": 1.0, "demonstrations": len(shown), "action_tokens": sum(sum(each["action_mask"]) for each in shown)}
    say_once(told.desk, "metrics", step=step, values=values)
    folder = pathlib.Path("checkpoints", f"global_step_{step}").absolute()
    folder.mkdir(parents=True)
    (folder / "agentgym.json").write_text(json.dumps({"digest": told.digest, "step": step, "ranks": 1, "shards": "."}))
    say_once(told.desk, "checkpoint", step=step, path=str(folder))
"""


def stand_in(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """A trainer in the place of verl's that makes ``steps`` updates of what it is given."""
    monkeypatch.setattr(imitation, "launcher_words", lambda _: ("-c", TRAINER.replace("STEPS", str(steps))))


@pytest.mark.slow
async def test_a_launch_ends_with_the_last_steps_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, 2)
    async with learning(tmp_path, "train.keep_checkpoints=1") as (work, prepared):
        await work.launch(tmp_path / "model")
    checkpoints = recorded(prepared, CheckpointRecord)
    assert [(each.step, each.path) for each in checkpoints] == [(step, f"verl/checkpoints/global_step_{step}") for step in (1, 2)]
    last = last_verl_checkpoint(prepared.folder / "verl", digest=prepared.frozen.digest)
    assert last is not None and (last.step, last.shards) == (2, last.folder)
    assert [path.name for path in last.folder.parent.iterdir()] == ["global_step_2"]
    said = (prepared.folder / "verl" / "command-1.txt").read_text().splitlines()
    assert "trainer.total_training_steps=2" in said and "data.train_batch_size=2" in said


@pytest.mark.slow
async def test_a_trainer_that_ends_early_and_well_has_not_done_what_was_planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, 1)
    async with learning(tmp_path) as (work, _):
        with pytest.raises(TrainerError, match="expected 2 steps and the last one's checkpoint, got 1 steps and a checkpoint of step 1"):
            await work.launch(tmp_path / "model")


async def went_through(monkeypatch: pytest.MonkeyPatch, folder: Path, done: int) -> list[str]:
    """What a run does behind the checkpoint of step ``done``, in order."""
    went: list[str] = []

    async def lesson(*_: object, **__: object) -> Lesson:
        went.append("gather")
        return LESSON

    async def launch(self: Learning, model: Path) -> None:
        went.append(f"learn from {model.name}")
        complete(self._prepared, 2)

    async def judged(_: object, model: ServedModel, *__: object, phase: str) -> None:
        assert model.tokenizer.name == "model" and model.folder.is_dir()
        went.append(f"{phase} {model.folder.name} of step {model.step}")

    def merged(shards: Path, place: Path, **_: object) -> None:
        went.append(f"merge {shards.name}")

    for name, function in {"_lesson": lesson, "evaluate_served": judged, "merge": merged}.items():
        monkeypatch.setattr(imitation, name, function)
    monkeypatch.setattr(imitation, "rehearsal_model", lambda _, place, **__: place)
    monkeypatch.setattr(Learning, "launch", launch)
    async with learning(folder) as (work, prepared):
        prepared = replace(prepared, evaluation_tasks={"test": (Task(id="textcraft_1", index=1, split="test", category="", goal="", digest=""),)})
        (prepared.folder / "verl" / "model").mkdir()
        found = complete(prepared, done) if done else None
        stage: Any = SimpleNamespace(history=EMPTY, recorder=work._recorder, progress=Silent())
        assert prepared.run.train is not None
        await imitation._phases(prepared, prepared.run.train, Stored(), stage, found)
        assert not (prepared.folder / "verl" / "merged").exists()
    return went


def complete(prepared: Prepared, step: int) -> VerlCheckpoint | None:
    place = prepared.folder / "verl" / "checkpoints" / f"global_step_{step}"
    place.mkdir(parents=True)
    (place / "agentgym.json").write_text(json.dumps({"digest": prepared.frozen.digest, "step": step, "ranks": 1, "shards": "."}))
    return last_verl_checkpoint(prepared.folder / "verl", digest=prepared.frozen.digest)


@pytest.mark.parametrize(
    ("done", "went"),
    [
        (0, ["gather", "eval_before model of step 0", "learn from model", "merge global_step_2", "eval_after merged of step 2"]),
        (1, ["gather", "learn from model", "merge global_step_2", "eval_after merged of step 2"]),
        (2, ["merge global_step_2", "eval_after merged of step 2"]),
    ],
)
async def test_a_run_evaluates_learns_and_evaluates_again_and_a_resume_does_what_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, done: int, went: list[str]
) -> None:
    assert await went_through(monkeypatch, tmp_path, done) == went


def test_a_run_that_could_not_be_evaluated_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(served_checks, "installed_version", lambda _: None)
    frozen = freeze(resolve("textcraft_grpo.yaml", RECIPE))
    prepared: Any = SimpleNamespace(run=frozen.run, evaluation_tasks={"test": ()})
    with pytest.raises(LockError, match="engine verl: expected vllm to be installed, got none"):
        require_model_files(prepared)
    prepared.evaluation_tasks = {}
    require_model_files(prepared)
