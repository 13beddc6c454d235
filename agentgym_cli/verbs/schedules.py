"""Which episodes a phase consists of, in order. Pure: the same run gives the same schedule, whatever happened before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from agentgym_cli.episode.types import ScheduledEpisode, Task
from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.schedules import tasks_at
from agentgym_cli.recipe.schema.learning import ChosenTasks
from agentgym_cli.recipe.tasks import TaskRow
from agentgym_cli.recipe.wording import asked, listed, shown

_NAMED = 5
"""Most mistakes that a message names."""


def tasks_of(rows: Sequence[TaskRow], *, env: str, split: str) -> tuple[Task, ...]:
    """Rows of a manifest as the tasks of one split."""
    return tuple(Task(id=f"{env}_{row.index}", index=row.index, split=split, category=row.category, goal=row.goal, digest=row.digest) for row in rows)


def demonstration_schedule(tasks: Sequence[Task], *, seed: int, count: int, horizon: int) -> list[ScheduledEpisode]:
    """The first ``count`` tasks in the drawing order of training, fewer when there are fewer."""
    drawn = tasks_at(tasks, seed, 1, min(count, len(tasks)))
    return [ScheduledEpisode(phase="warm_start", step=0, task=task, sample=0, horizon=horizon) for task in drawn]


def oracle_schedule(tasks: Sequence[Task], *, seed: int, count: int, horizon: int) -> list[ScheduledEpisode]:
    """The same tasks as the demonstrations that an algorithm learns from: a phase of its own, before the first step."""
    drawn = tasks_at(tasks, seed, 1, min(count, len(tasks)))
    return [ScheduledEpisode(phase="demonstrate", step=0, task=task, sample=0, horizon=horizon) for task in drawn]


def exploration_schedule(tasks: Sequence[Task], *, step: int, samples: int, horizon: int) -> list[ScheduledEpisode]:
    """Episodes that the policy plays before ``step`` to learn from the good ones; ``tasks`` may not repeat."""
    return [ScheduledEpisode(phase="explore", step=step, task=task, sample=sample, horizon=horizon) for task in tasks for sample in range(samples)]


def training_schedule(tasks: Sequence[Task], *, step: int, group_size: int, horizon: int) -> list[ScheduledEpisode]:
    """One group of ``group_size`` samples for each task, groups one after the other; a task drawn twice goes on counting its samples."""
    drawn: Counter[str] = Counter()
    schedule: list[ScheduledEpisode] = []
    for task in tasks:
        for _ in range(group_size):
            schedule.append(ScheduledEpisode(phase="train", step=step, task=task, sample=drawn[task.id], horizon=horizon))
            drawn[task.id] += 1
    return schedule


def chosen_tasks(splits: Mapping[str, tuple[Task, ...]], only: ChosenTasks | None, *, env: str) -> dict[str, tuple[Task, ...]]:
    """What is run of each evaluation split, splits without a task left out.

    Args:
        only: whatever it names has to be there.
        env: what ids of tasks start with.

    Raises:
        RecipeError: a number, category or split that is not there, or nothing is left.
    """
    if only is None:
        return dict(splits)
    every = [task for tasks in splits.values() for task in tasks]
    indices, wrong = _indices(only.ids, {task.index for task in every}, env=env)
    wrong += _unknown(only.categories, sorted({task.category for task in every if task.category}), "categories")
    wrong += _unknown(only.splits, list(splits), "splits")
    if wrong:
        raise RecipeError("; ".join(wrong[:_NAMED]), f"task numbers go from {_ends(every)}" if only.ids is not None else None)
    chosen = {
        name: tuple(task for task in tasks if _holds(only.categories, task.category) and (indices is None or task.index in indices))
        for name, tasks in splits.items()
        if _holds(only.splits, name)
    }
    left = {name: tasks for name, tasks in chosen.items() if tasks}
    if not left:
        raise RecipeError("evaluation.only: expected to leave a task, got filters that no task of the evaluation splits meets together")
    return left


def _holds(wanted: Sequence[str] | None, value: str) -> bool:
    return wanted is None or value in wanted


def _unknown(wanted: Sequence[str] | None, known: Sequence[str], key: str) -> list[str]:
    """What is wrong with names of which one has to be there."""
    wrong = []
    for name in wanted or ():
        if name not in known:
            wrong.append(f"evaluation.only.{key}: expected some of {listed(known) or 'none'}, got {shown(name)}{asked(name, known, before='; ')}")
    return wrong


def _indices(ids: str | None, there: set[int], *, env: str) -> tuple[set[int] | None, list[str]]:
    """Task numbers of ``textcraft_3,5-9``, each of which is there, and what is wrong with the others; None where all are meant."""
    found: set[int] = set()
    wrong = []
    for part in () if ids is None else ids.split(","):
        prefix, _, numbers = part.rpartition("_")
        first, _, last = numbers.partition("-")
        wanted = range(int(first), int(last or first) + 1)
        if prefix not in ("", env):
            wrong.append(f"evaluation.only.ids: expected tasks of {env}, got {shown(part)}")
        elif not wanted:
            wrong.append(f"evaluation.only.ids: expected a range that rises, got {part}, which goes backwards")
        elif (missing := next((index for index in wanted if index not in there), None)) is not None:
            which = f"no {missing} of {part}" if len(wanted) > 1 else part
            wrong.append(f"evaluation.only.ids: expected numbers of tasks of the evaluation splits, got {which}")
        else:
            found.update(wanted)
    return None if ids is None else found, wrong


def _ends(tasks: Sequence[Task]) -> str:
    numbers = [task.index for task in tasks]
    return f"{min(numbers)} to {max(numbers)}, {len(set(numbers))} of them" if numbers else "none to none"


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
