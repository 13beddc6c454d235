"""Learning from stored data, step by step: what is common to sft, dpo and agentevol. Loads torch; knows no loss."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from agentgym_cli.episode.types import Task
from agentgym_cli.learn.checkpoint import load_checkpoint, save_checkpoint
from agentgym_cli.learn.model import WEIGHTS, load_weights
from agentgym_cli.learn.supervised import StoredTrainer
from agentgym_cli.verbs.courses import Course, Numbers, Setting
from agentgym_cli.verbs.folders import Checkpoint, checkpoint_folder, forget_checkpoints
from agentgym_cli.verbs.local import evaluate_if_due
from agentgym_cli.verbs.progress import Cell

_SHOWN = ("loss", "accuracy", "margin")


class StoredLearning:
    """A course through its steps, with the checkpoints that it goes on from."""

    def __init__(self, setting: Setting, course: Course, splits: Mapping[str, Sequence[Task]], *, digest: str) -> None:
        self._setting, self._course, self._splits, self._digest = setting, course, splits, digest
        self._trainer: StoredTrainer | None = None

    def begin(self, found: Checkpoint | None) -> None:
        """Start from the model as it is, kept as step 0, or go on from a checkpoint. Raises TrainerError for another run's checkpoint."""
        model = self._setting.engine.model
        if found is None:
            self._trainer = self._course.begin()
            self._keep(0)
            return
        load_weights(model, checkpoint_folder(self._setting.folder, 0) / WEIGHTS)
        self._trainer = self._course.begin()
        load_checkpoint(found.folder, model=model, optimizer=self._trainer.optimizer, digest=self._digest)

    async def go_on(self, after: int) -> None:
        """Steps ``after`` + 1 to the last: update, record, keep; exactly as many as the recipe says, with evaluations where it wants them."""
        setting = self._setting
        spec, stage = setting.spec, setting.stage
        stage.progress.begin("train", spec.steps, "step", done=after)
        for step in range(after + 1, spec.steps + 1):
            await evaluate_if_due(setting.engine, self._splits, stage, done=step - 1)
            began = time.monotonic()
            numbers = await self._course.step(step)
            seconds = time.monotonic() - began
            stage.recorder.metrics("train", step, numbers)
            stage.recorder.metrics("train", step, {"time/step_seconds": seconds})
            if step % spec.checkpoint_every == 0 or step == spec.steps:
                self._keep(step)
            stage.progress.advance(step, _cells(numbers, seconds))
            stage.recorder.load_if_due()
            await stage.breathe()
        stage.progress.end()

    def _keep(self, step: int) -> None:
        """Write the checkpoint of a step and record it, once the records of the steps behind it are on the disk."""
        assert self._trainer is not None, "begin first"
        setting, recorder = self._setting, self._setting.stage.recorder
        recorder.sync()
        folder = checkpoint_folder(setting.folder, step)
        weights = save_checkpoint(folder, model=setting.engine.model, optimizer=self._trainer.optimizer, step=step, digest=self._digest)
        recorder.checkpoint(step, str(folder.relative_to(setting.folder)), weights)
        forget_checkpoints(setting.folder, keep=setting.spec.keep_checkpoints)


def _cells(numbers: Numbers, seconds: float) -> dict[str, Cell]:
    tokens = numbers.get("action_tokens")
    shown: dict[str, Cell] = {name: numbers[name] for name in _SHOWN if name in numbers}
    return shown | ({"tokens/s": round(tokens / seconds)} if tokens else {})
