"""Which episodes a phase consists of, in order. Pure: the same run gives the same schedule, whatever happened before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from agentgym_cli.episode.types import ScheduledEpisode, Task
from agentgym_cli.learn.schedules import tasks_at
from agentgym_cli.recipe.tasks import TaskRow


def tasks_of(rows: Sequence[TaskRow], *, env: str, split: str) -> tuple[Task, ...]:
    """Rows of a manifest as the tasks of one split."""
    return tuple(Task(id=f"{env}_{row.index}", index=row.index, split=split, category=row.category, goal=row.goal, digest=row.digest) for row in rows)


def demonstration_schedule(tasks: Sequence[Task], *, seed: int, count: int, horizon: int) -> list[ScheduledEpisode]:
    """The first ``count`` tasks in the drawing order of training, fewer when there are fewer."""
    drawn = tasks_at(tasks, seed, 1, min(count, len(tasks)))
    return [ScheduledEpisode(phase="warm_start", step=0, task=task, sample=0, horizon=horizon) for task in drawn]


def training_schedule(tasks: Sequence[Task], *, step: int, group_size: int, horizon: int) -> list[ScheduledEpisode]:
    """One group of ``group_size`` samples for each task, groups one after the other; a task drawn twice goes on counting its samples."""
    drawn: Counter[str] = Counter()
    schedule: list[ScheduledEpisode] = []
    for task in tasks:
        for _ in range(group_size):
            schedule.append(ScheduledEpisode(phase="train", step=step, task=task, sample=drawn[task.id], horizon=horizon))
            drawn[task.id] += 1
    return schedule


def evaluation_schedule(
    splits: Mapping[str, Sequence[Task]], *, phase: str, step: int, samples: int, horizon: int, limit: int | None
) -> list[ScheduledEpisode]:
    """All samples of the first ``limit`` tasks (all when None) of every split."""
    return [
        ScheduledEpisode(phase=phase, step=step, task=task, sample=sample, horizon=horizon)
        for tasks in splits.values()
        for task in tasks[:limit]
        for sample in range(samples)
    ]
