"""A run's horizon over its planned steps: its stages, what fits the context in each, and what a resume makes of it. Starts nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from agentgym_cli.learn.schedules import horizon_at
from agentgym_cli.recipe.schema.learning import HorizonSpec
from agentgym_cli.recipe.schema.run import Run

Span = tuple[int, int, int]
"""First step, last step and turns of a span of steps with one horizon."""
_MOST_RESUMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage as it is planned."""

    first: int
    last: int
    """Last planned step in it; the stage itself may go on."""
    turns: int
    tokens_per_turn: int
    """Tokens of context for each turn, instructions and observations included, when all turns are taken."""
    full_turns: int
    """Turns that fit the context when every response uses its whole budget, observations not counted; at most ``turns``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRow:
    """What a run that is interrupted and resumed would still do."""

    after: int
    """Step of the checkpoint that it resumes from."""
    spans: tuple[Span, ...]
    same: bool
    """Whether these are the horizons of an uninterrupted run, step by step."""


def horizon_spans(schedule: HorizonSpec, steps: Iterable[int]) -> tuple[Span, ...]:
    """Spans of one horizon over consecutive steps."""
    found: list[Span] = []
    for turns, members in groupby(steps, key=lambda step: horizon_at(schedule, step)):
        span = list(members)
        found.append((span[0], span[-1], turns))
    return tuple(found)


def stage_rows(run: Run) -> tuple[StageRow, ...]:
    """Stages of the planned steps; empty for a recipe that only evaluates."""
    budgets = run.budgets
    return tuple(
        StageRow(
            first=first,
            last=last,
            turns=turns,
            tokens_per_turn=budgets.context_tokens // turns,
            full_turns=min(turns, budgets.context_tokens // budgets.response_tokens),
        )
        for first, last, turns in horizon_spans(run.horizon, range(1, _steps(run) + 1))
    )


def resume_rows(run: Run) -> tuple[ResumeRow, ...]:
    """For interruptions around every change of the horizon, and at the first and last checkpoint: the rest as a resume runs it, beside the plan."""
    steps = _steps(run)
    if run.train is None:
        return ()
    planned = [horizon_at(run.horizon, step) for step in range(1, steps + 1)]
    changes = [step for step in range(1, steps) if planned[step] != planned[step - 1]]
    near = {step + offset for step in changes for offset in (-1, 0, 1)} | {min(run.train.checkpoint_every, steps - 1), steps - 1}
    rows = []
    for after in sorted(step for step in near if 0 <= step < steps)[:_MOST_RESUMES]:
        spans = horizon_spans(run.horizon, range(after + 1, steps + 1))
        resumed = [turns for first, last, turns in spans for _ in range(first, last + 1)]
        rows.append(ResumeRow(after=after, spans=spans, same=resumed == planned[after:]))
    return tuple(rows)


def _steps(run: Run) -> int:
    return 0 if run.train is None else run.train.steps
