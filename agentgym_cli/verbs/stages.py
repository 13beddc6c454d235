"""A run's horizon over its planned steps: its stages, what fits the context in each, and what a resume makes of it. Starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from agentgym_cli.learn.schedules import spans
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.run import Run

Span = tuple[int, int, int]
"""First step, last step and turns of a span of steps with one horizon."""
MOST_ROWS = 12
"""Stages, and interruptions, that are shown; more are counted."""
MOST_COUNTED = 10_000


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
    """What a run that is interrupted and resumed still does."""

    after: int
    """Step of the checkpoint that it resumes from."""
    spans: tuple[Span, ...]
    more: int
    """Further spans that are not shown."""
    same: bool
    """Whether these are the horizons of the uninterrupted run: the same plan, cut behind ``after``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The horizon of a run over its planned steps."""

    stages: tuple[StageRow, ...]
    """The first of them; empty for a recipe that only evaluates."""
    more_stages: int
    resumes: tuple[ResumeRow, ...]


def plan_of(run: Run) -> Plan:
    """Stages against steps and context, and what resumes go on with around each change of the horizon and behind the first and last checkpoint."""
    if run.train is None:
        return Plan(stages=(), more_stages=0, resumes=())
    planned = tuple(islice(spans(run.horizon, after=0, steps=run.train.steps), MOST_COUNTED))
    shown = planned[:MOST_ROWS]
    resumes = [_resume(run, after, planned) for after in _interruptions(run.train, shown)]
    return Plan(stages=tuple(_stage(run, span) for span in shown), more_stages=len(planned) - len(shown), resumes=tuple(resumes))


def _stage(run: Run, span: Span) -> StageRow:
    first, last, turns = span
    context, response = run.budgets.context_tokens, run.budgets.response_tokens
    return StageRow(first=first, last=last, turns=turns, tokens_per_turn=context // turns, full_turns=min(turns, context // response))


def _interruptions(train: TrainSpec, shown: tuple[Span, ...]) -> list[int]:
    """Steps of checkpoints worth showing: at, before and behind every change of the horizon, the first one and the last one before the end."""
    ends = [last for _, last, _ in shown if last < train.steps]
    near = {end + offset for end in ends for offset in (-1, 0, 1)} | {min(train.checkpoint_every, train.steps - 1), train.steps - 1}
    every = sorted(after for after in near if 0 <= after < train.steps)
    return every if len(every) <= MOST_ROWS else [*every[: MOST_ROWS - 1], every[-1]]


def _resume(run: Run, after: int, planned: tuple[Span, ...]) -> ResumeRow:
    """What training goes through behind ``after``, beside the plan from there on."""
    assert run.train is not None
    rest = tuple(islice(spans(run.horizon, after=after, steps=run.train.steps), MOST_COUNTED))
    cut = tuple((max(first, after + 1), last, turns) for first, last, turns in planned if last > after)
    return ResumeRow(after=after, spans=rest[:MOST_ROWS], more=max(0, len(rest) - MOST_ROWS), same=rest[: len(cut)] == cut)
