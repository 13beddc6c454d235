"""Several episodes of each task: pass@k, pass^k and avg@k, against both denominators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from agentgym_cli.report.statistics.intervals import mean_over_tasks
from agentgym_cli.report.statistics.pass_at import ladder, pass_all, pass_at
from agentgym_cli.store.task_rows import CellRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMean:
    """A mean over tasks with its 95% interval."""

    value: float | None
    low: float | None
    high: float | None
    method: str | None
    why: str | None = None
    """Why there is no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What k tries at a task are worth."""

    k: int
    counted: str
    """``end to end``: an episode without a score is no success; ``conditional``: it is left out, and a task with fewer than k scored ones too."""
    tasks: int
    """Tasks with k episodes or more, over which the means go."""
    too_few: int
    """Tasks with fewer, which no unbiased estimate can use."""
    any_of: TaskMean
    """pass@k: at least one of k succeeds."""
    all_of: TaskMean
    """pass^k: all of k succeed."""
    average: TaskMean
    """avg@k: the share of k that succeeds."""


def tries(cells: Sequence[CellRow]) -> tuple[Tries, ...]:
    """For each k worth showing, end to end and conditional; empty where no task has several episodes."""
    most = max((cell.scheduled for cell in cells), default=0)
    if most < 2:
        return ()
    counted = {"end to end": [(cell.tasks, cell.success, cell.scheduled) for cell in cells]}
    if not any(cell.scored or cell.infra_error for cell in cells):
        # Nothing was played: no try is worth 0.
        counted["end to end"] = []
    counted["conditional"] = [(cell.tasks, cell.success, cell.scored) for cell in cells]
    return tuple(_tries(k, name, kinds) for k in ladder(most) for name, kinds in counted.items())


_Kind = tuple[int, int, int]
"""How many tasks have so many successes in so many episodes."""


def _tries(k: int, counted: str, kinds: Sequence[_Kind]) -> Tries:
    enough = [kind for kind in kinds if kind[2] >= k]
    why = f"no task has {k} {'scored ' if counted == 'conditional' else ''}episode{'' if k == 1 else 's'}"
    return Tries(
        k=k,
        counted=counted,
        tasks=sum(tasks for tasks, _, _ in enough),
        too_few=sum(tasks for tasks, _, samples in kinds if samples < k),
        any_of=_mean(enough, lambda successes, samples: pass_at(successes, samples, k), why),
        all_of=_mean(enough, lambda successes, samples: pass_all(successes, samples, k), why),
        average=_mean(enough, lambda successes, samples: successes / samples, why),
    )


def _mean(kinds: Sequence[_Kind], value: Callable[[int, int], float], why: str) -> TaskMean:
    weighted = [(tasks, value(successes, samples)) for tasks, successes, samples in kinds]
    count, total = sum(tasks for tasks, _ in weighted), fsum(tasks * each for tasks, each in weighted)
    interval = mean_over_tasks(count, total, fsum(tasks * each * each for tasks, each in weighted))
    if interval is None:
        return TaskMean(value=None, low=None, high=None, method=None, why=why)
    return TaskMean(value=total / count, low=interval.low, high=interval.high, method=interval.method)
