"""How many tasks and episodes an evaluation needs for a wanted interval or a difference, by the formulas that reports use, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym_cli.capacity.measured import Measured
from agentgym_cli.capacity.money import Stage
from agentgym_cli.errors import RecipeError
from agentgym_cli.report.statistics.intervals import wilson
from agentgym_cli.report.statistics.power import smallest_apart, smallest_paired

MOST_TASKS = 10_000_000
_GUESS = 0.5
"""Rate of success where nobody measured one: the one with the widest interval."""
_SAMPLES = (1, 4, 16)
Enough = Callable[[int, int], bool]
"""Whether so many tasks with so many episodes each are enough."""
Staged = Callable[[int], Stage]
"""What so many episodes take."""
_WITHIN = 0.5
"""Share of the variance of an outcome that lies within a task, where nobody measured it; the rest is between tasks, and samples do not lessen it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One way to have it."""

    samples: int
    """Episodes of each task."""
    tasks: int | None
    """None where no number of tasks below ten million is enough."""
    stage: Stage | None
    """What it takes, on the devices of the estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """Sizes for what was asked for, at a rate of success."""

    rate: float
    rate_from: str
    width: float | None
    gap: float | None
    for_width: tuple[Size, ...]
    for_gap: tuple[Size, ...]
    """Two policies on different tasks; sizes are of each of them."""
    for_gap_paired: tuple[Size, ...]
    """Two policies on the same tasks; sizes are of each of them."""
    tasks: int
    """Tasks that the recipe's splits have."""


def plan_evaluation(
    staged: Staged, evaluated: Mapping[str, int], *, width: float | None, gap: float | None, measured: Measured | None
) -> EvaluationPlan | None:
    """Sizes for an interval of ``width`` and for a difference of ``gap``, both shares; None where neither is asked for.

    Args:
        staged: what so many episodes take.
        evaluated: tasks of each evaluation split.

    Raises:
        RecipeError: a width or a difference that is not between 0 and 1.
    """
    for name, value in (("--width", width), ("--difference", gap)):
        if value is not None and not 0 < value < 1:
            raise RecipeError(f"{name}: expected a share between 0 and 1, e.g. 0.1 for ten points, got {value}", f"{name} 0.1 (docs/capacity.md)")
    if width is None and gap is None:
        return None
    rate, source = _GUESS, "assumed"
    if measured is not None and measured.use.play and measured.success is not None:
        rate, source = min(0.99, max(0.01, measured.success)), measured.source

    def sizes(wanted: float | None, enough: Enough) -> tuple[Size, ...]:
        return () if wanted is None else tuple(_size(staged, samples, enough) for samples in _SAMPLES)

    spread = rate * (1 - rate)
    return EvaluationPlan(
        rate=rate,
        rate_from=source,
        width=width,
        gap=gap,
        for_width=sizes(width, lambda tasks, samples: _width(rate, independent(tasks, samples)) <= (width or 0)),
        for_gap=sizes(gap, lambda tasks, samples: _apart(spread / independent(tasks, samples)) <= (gap or 0)),
        # What tasks differ by falls out of a difference on the same tasks; what episodes of a task differ by comes twice.
        for_gap_paired=sizes(gap, lambda tasks, samples: _paired(tasks, 2 * _WITHIN * spread / samples) <= (gap or 0)),
        tasks=sum(evaluated.values()),
    )


def _apart(variance: float) -> float:
    return smallest_apart(variance, variance) or 0.0


def _paired(tasks: int, variance: float) -> float:
    return smallest_paired(tasks, tasks * variance) or 0.0


def _width(rate: float, count: float) -> float:
    """Of the interval of ``count`` independent episodes."""
    found = wilson(rate * count, count)
    return 1.0 if found is None else found.high - found.low


def independent(tasks: int, samples: int) -> float:
    """Episodes of different tasks that say as much as ``samples`` episodes of each of so many tasks."""
    return tasks / (_WITHIN / samples + 1 - _WITHIN)


def fewest(enough: Callable[[int], bool], most: int = MOST_TASKS) -> int | None:
    """The smallest number from 1 that is enough, for a test that stays true once it is; None where ``most`` is not."""
    if not enough(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _size(staged: Staged, samples: int, enough: Enough) -> Size:
    tasks = fewest(lambda count: enough(count, samples))
    return Size(samples=samples, tasks=tasks, stage=None if tasks is None else staged(tasks * samples))
