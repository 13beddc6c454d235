"""The schedule as rows for verl: one for each group of episodes, in order. Pure; knows no verl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from agentgym_cli.episode.types import ScheduledEpisode, Task
from agentgym_cli.learn.schedules import steps_after, tasks_at
from agentgym_cli.recipe.schema.learning import HorizonSpec, TrainSpec

TRAIN, EVALUATION = "train", "evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One task drawn once: verl plays it as many times as a group has members."""

    phase: str
    """``train``, or ``evaluation`` for whichever evaluation verl is in."""
    step: int
    """Scheduled step, which decides the horizon whatever step of verl's consumes the episode; 0 in evaluations."""
    task: Task
    first_sample: int
    """Number of the group's first episode among those of the same task and step."""
    horizon: int

    def episode(self, member: int, *, phase: str, step: int) -> ScheduledEpisode:
        """The scheduled episode of one member of the group, from 0."""
        return ScheduledEpisode(phase=phase, step=step, task=self.task, sample=self.first_sample + member, horizon=self.horizon)


def training_rows(tasks: Sequence[Task], spec: TrainSpec, horizon: HorizonSpec, *, seed: int) -> Iterator[Row]:
    """The whole schedule of training: ``tasks_per_step`` rows for each step, from step 1 to the last."""
    for step, turns in steps_after(horizon, after=0, steps=spec.steps):
        drawn: Counter[str] = Counter()
        for task in tasks_at(tasks, seed, step, spec.tasks_per_step):
            yield Row(phase=TRAIN, step=step, task=task, first_sample=drawn[task.id], horizon=turns)
            drawn[task.id] += spec.algorithm.group_size


def evaluation_rows(splits: Mapping[str, Sequence[Task]], *, horizon: int, limit: int | None) -> Iterator[Row]:
    """Every evaluated task once, split by split."""
    for tasks in splits.values():
        for task in tasks[:limit]:
            yield Row(phase=EVALUATION, step=0, task=task, first_sample=0, horizon=horizon)


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """One JSON object a line. Returns how many there are."""
    lines = [orjson.dumps(asdict(row)) + b"\n" for row in rows]
    path.write_bytes(b"".join(lines))
    return len(lines)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that ``write_rows`` wrote."""
    return [row_of(orjson.loads(line)) for line in path.read_bytes().splitlines()]


def row_of(document: Mapping[str, object]) -> Row:
    """A row as its own plain data."""
    task = document["task"]
    assert isinstance(task, Mapping)
    return Row(**{**document, "task": Task(**task)})  # type: ignore[arg-type]
