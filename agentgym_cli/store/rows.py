"""What queries return: small frozen rows, all numbers counts or sums, so that rates are computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run and the state of its latest segment."""

    run: str
    name: str
    verb: str
    profile: str
    profile_reason: str
    engine: str
    digest: str
    env: str
    policy: str
    seed: int | None
    created: str
    frozen: str
    fingerprint: str
    imported: str | None
    """Format of the files that another program's run was imported from."""
    segments: int
    status: str | None
    """Of the latest segment; None while it runs or after a kill."""
    ended: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """One segment and how many of its records were superseded."""

    segment: int
    resumed_from_step: int | None
    started: str
    ended: str | None
    status: str | None
    drift: Sequence[str]
    """What it was allowed to run with although it was not as frozen."""
    superseded_attempts: int
    superseded_outcomes: int
    superseded_records: int
    """Of every kind, the two before included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsRow:
    """Episodes of one category of one split of one phase, counted against the schedule."""

    phase: str
    split: str
    step: int | None
    """None in phases that span steps (``train``, ``warm_start``)."""
    category: str
    scheduled: int
    success: int
    failure: int
    infra_error: int
    missing: int
    by_verifier: int
    action_induced: int
    """Infra errors that came back on the same action."""
    truncated: int
    first_success: int
    first_failure: int
    first_infra_error: int
    first_missing: int
    retried: int
    """Episodes with more than one attempt."""
    turns: int
    """Of the attempts that count, as are the columns below."""
    invalid_actions: int
    prompt_tokens: int
    action_tokens: int
    seconds: float
    policy_seconds: float
    env_seconds: float
    most_samples: int
    """Most episodes of one task."""
    tasks: int
    tasks_scored: int
    """Tasks with a scored episode."""
    success_squared: int
    """Over tasks: sum of successes squared; likewise the products below, of successes, scheduled, scored and infra errors of one task."""
    success_scheduled: int
    scheduled_squared: int
    success_scored: int
    scored_squared: int
    infra_squared: int
    infra_scheduled: int
    first_tasks_scored: int
    """Tasks with an episode whose first attempt was scored; the sums below are those above, had nothing been tried again."""
    first_success_squared: int
    first_success_scheduled: int
    first_success_scored: int
    first_scored_squared: int
    first_infra_squared: int
    first_infra_scheduled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRow:
    """How often the attempt that counts stopped for a reason (and, for infra errors, a cause), by what it counts as."""

    phase: str
    split: str
    step: int | None
    stop: str
    cause: str | None
    outcome: str
    episodes: int
    example: str
    """A message of one of them; foreign text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonRow:
    """The same, by category and horizon too."""

    phase: str
    split: str
    step: int | None
    category: str
    horizon: int | None
    """None where it was not kept."""
    stop: str
    cause: str | None
    outcome: str
    episodes: int
    action_induced: int
    """Of infra errors, those that came back on the same action."""
    example: str
    """A message of one of them; foreign text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptsRow:
    """Attempts of a phase and split, all of them: what was spent."""

    phase: str
    split: str
    step: int | None
    attempts: int
    infra_error: int
    turns: int | None
    """None, as the two below, where no attempt kept it."""
    action_tokens: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """How many tasks of a split fared alike in the evaluations before and after training; the counts are of each such task."""

    split: str
    before_success: int
    before_scored: int
    before_scheduled: int
    after_success: int
    after_scored: int
    after_scheduled: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One number of one step."""

    phase: str
    step: int
    name: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTotals:
    """One metric over the steps of a phase; None where no step has a value."""

    phase: str
    name: str
    steps: int
    """Steps with a value."""
    total: float | None
    mean: float | None
    least: float | None
    most: float | None
    first: float | None
    last: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRow:
    """One check of one server, of the latest segment that probed."""

    url: str
    name: str
    result: str
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """A server that was given up, or taken back."""

    segment: int
    url: str
    event: str
    """``opened`` when it was given up, ``closed`` when it answered again: its circuit breaker's states."""
    cause: str | None
    """Cause of the failure that it was given up for; None when it was taken back."""
    detail: str
    """That failure's message, '' when it was taken back; foreign text."""
    happened: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """One checkpoint that counts."""

    step: int
    path: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRow:
    """A checkpoint of some run of the store, looked for by its weights."""

    run: str
    step: int
    path: str
    """Inside the run's folder."""
