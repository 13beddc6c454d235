"""What is pure in the step: the horizon, its stage, and the tasks that are drawn. A resume needs no state. Knows no tensors."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

from agentgym_cli.recipe.schema.learning import FixedHorizon, HorizonSpec, IncrementHorizon

T = TypeVar("T")


def horizon_at(schedule: HorizonSpec, step: int) -> int:
    """Most turns of an episode scheduled for optimizer ``step``, the first being 1. Raises ValueError below 1.

    ScalingInter-RL, arXiv 2509.08755, section 3: a short horizon first, longer ones in stages.
    """
    stage = stage_at(schedule, step)
    if isinstance(schedule, FixedHorizon):
        return schedule.turns
    if isinstance(schedule, IncrementHorizon):
        return min(schedule.start + schedule.increment * (stage - 1), schedule.cap)
    return schedule.turns[stage - 1]


def stage_at(schedule: HorizonSpec, step: int) -> int:
    """Number of the stage that ``step`` lies in, the first being 1: a span of steps with one horizon. Raises ValueError below step 1."""
    if step < 1:
        raise ValueError(f"step: expected 1 or more, got {step}")
    if isinstance(schedule, FixedHorizon):
        return 1
    if isinstance(schedule, IncrementHorizon):
        stages = 1 + max(0, -(-(schedule.cap - schedule.start) // schedule.increment))
        return min(1 + (step - 1) // schedule.every, stages)
    spans = schedule.steps * len(schedule.turns) if len(schedule.steps) == 1 else schedule.steps
    ends = list(accumulate(spans[: len(schedule.turns) - 1]))
    return 1 + bisect_right(ends, step - 1)


def spans(schedule: HorizonSpec, *, after: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """What a run of ``steps`` steps still does behind step ``after``: first step, last step and horizon of each span of one horizon.

    ``after`` is 0 for a new run, the checkpoint's step for a resume. Asks ``horizon_at`` once a span, so that long schedules cost nothing.
    """
    step = after + 1
    while step <= steps:
        turns, last = horizon_at(schedule, step), _last_of_stage(schedule, step, steps)
        while last < steps and horizon_at(schedule, last + 1) == turns:
            last = _last_of_stage(schedule, last + 1, steps)
        yield step, last, turns
        step = last + 1


def steps_after(schedule: HorizonSpec, *, after: int, steps: int) -> Iterator[tuple[int, int]]:
    """Each step that a run still makes behind step ``after``, and its horizon: what training goes through, new or resumed."""
    for first, last, turns in spans(schedule, after=after, steps=steps):
        for step in range(first, last + 1):
            yield step, turns


def _last_of_stage(schedule: HorizonSpec, step: int, steps: int) -> int:
    """The last step of the stage that ``step`` lies in, at most ``steps``."""
    stage = stage_at(schedule, step)
    low, high = step, steps
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if stage_at(schedule, middle) == stage else (low, middle - 1)
    return low


def tasks_at(tasks: Sequence[T], seed: int, step: int, count: int) -> tuple[T, ...]:
    """The ``count`` tasks of optimizer ``step`` (first is 1): the list in passes, each in an order of its own, from (seed, pass) alone.

    Raises ValueError when there are no tasks or ``step`` is below 1.
    """
    if not tasks or step < 1:
        raise ValueError(f"tasks of a step: expected tasks and a step of 1 or more, got {len(tasks)} tasks and step {step}")
    first = (step - 1) * count
    drawn: list[T] = []
    for number in range(first // len(tasks), (first + count - 1) // len(tasks) + 1):
        order = _order(len(tasks), seed, number)
        start = number * len(tasks)
        drawn += [tasks[order[place - start]] for place in range(max(first, start), min(first + count, start + len(tasks)))]
    return tuple(drawn)


def _order(length: int, seed: int, number: int) -> list[int]:
    """A permutation of range(length), by SHA-256 of (seed, number, place): the same on every machine and Python."""
    return sorted(range(length), key=lambda place: hashlib.sha256(f"{seed}\n{number}\n{place}".encode()).digest())
