"""What the questions of a diagnosis return: counts and sums only, so that rates are computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRow:
    """Episodes of one phase and horizon."""

    phase: str
    horizon: int
    scheduled: int
    truncated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """Training episodes of one step: what the reward says and what the verifier says."""

    step: int
    rewards: int
    """Episodes with a return."""
    reward_sum: float
    scored: int
    success: int
    by_verifier: int
    """Of the scored ones, those whose outcome the verifier decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeRow:
    """Sampled tokens of training, by how many steps older their weights were than those of the step before the update."""

    age: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRow:
    """Attempts among the latest turns that were kept."""

    attempts: int
    looping: int
    """Of these, with one action several times in a row."""
    example: str | None
    """Episode of one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """A time in which no attempt ended, in seconds on the run's clock, and the attempts before and after it."""

    segment: int
    seconds: float
    typical: float
    """Median of such times in the run."""
    before_phase: str
    before_step: int
    phase: str
    """Of the attempt that ended it."""
    step: int
    attempt_seconds: float
    """Of that attempt."""
    policy_seconds: float
    env_seconds: float
    episode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRow:
    """How far a run was when the last attempt of a training step had ended; None where that was not kept."""

    step: int
    turns: int | None
    tokens: int | None
    """Sampled by the policy."""
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """One task in one evaluation."""

    split: str
    task: str
    category: str
    phase: str
    step: int
    scheduled: int
    success: int
    failure: int
    infra_error: int
    missing: int
    tasks: int
    """Tasks of the split, shown or not."""
