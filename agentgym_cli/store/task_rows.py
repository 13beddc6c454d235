"""What queries about tasks, stages and spending return: counts and sums only, so that rates are computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """How many tasks of one category are alike: as many episodes, successes, scored ones and infra errors each."""

    phase: str
    split: str
    step: int | None
    """None in phases that span steps (``train``, ``warm_start``)."""
    category: str
    scheduled: int
    """Of each such task, as are the three below."""
    success: int
    scored: int
    infra_error: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """The same for training, by horizon."""

    horizon: int
    first_step: int
    last_step: int
    """First and last step of the stage, whichever task."""
    scheduled: int
    success: int
    scored: int
    infra_error: int
    first_success: int
    """Had nothing been tried again, as are the two below."""
    first_scored: int
    first_infra_error: int
    retried: int
    """Episodes with more than one attempt."""
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task of one split of one evaluation."""

    task: str
    digest: str
    """'' where the content is not pinned."""
    category: str
    scheduled: int
    success: int
    scored: int
    infra_error: int
    reward: float
    """Sum of the returns of scored episodes."""
    rewards: int
    """Episodes with a return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingRow:
    """What all attempts of a run took, retried and superseded ones included; sums are None where nothing of it was kept."""

    attempts: int
    infra_error: int
    turns: int | None
    tokens_read: int | None
    """The policy's context at each call."""
    tokens_sampled: int | None
    attempt_seconds: float | None
    """Summed over attempts, which run side by side."""
    policy_seconds: float | None
    env_seconds: float | None
    run_seconds: float | None
    """On the clock, over all segments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpendingRow:
    """What all attempts of one phase took, retried and superseded ones included; sums are None where nothing of it was kept."""

    phase: str
    attempts: int
    infra_error: int
    tokens_sampled: int | None
    attempt_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRow:
    """Quantiles over the turns of a part of a run that were kept, in seconds."""

    phase: str | None
    """None: of the whole run."""
    split: str | None
    """None: of all splits."""
    step: int | None
    """None: of all steps, and in phases that span steps."""
    turns: int
    tokens_read: int | None
    """The policy's context at each of these turns, summed; None where it was not kept."""
    policy_p50: float | None
    policy_p95: float | None
    env_p50: float | None
    env_p95: float | None
