"""What a journal line can be. Every record names its run; the store's tables have the same columns. Knows no SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Table ``runs``; key (run)."""

    run: str
    name: str
    verb: str
    """``train`` or ``eval``."""
    profile: str
    profile_reason: str
    engine: str
    digest: str
    env: str
    """Dialect name."""
    policy: str
    """What acted: ``local``, ``oracle``, ``random``, ``scripted`` ..."""
    seed: int
    created: str
    """UTC, ISO 8601."""
    frozen: str
    """The frozen run, canonical JSON."""
    fingerprint: str
    """CPU features, threads, installed versions, canonical JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRecord:
    """Table ``segments``; key (run, segment)."""

    run: str
    segment: int
    """From 1."""
    resumed_from_step: int | None
    """Checkpoint step it it continues: None for the first segment, 0 after the warm start (and for evaluations), -1 starts over.

    Records of earlier segments whose position is above it are superseded. The position of phases ``warm_start`` and ``eval_before``
    is 0, of all others their step.
    """
    started: str
    ended: str | None = None
    """Written as a second record with the same key when the segment ends; the only column that may be filled in later."""
    status: str | None = None
    """``finished``, ``interrupted``, ``failed`` or, while it runs or after a kill, None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRecord:
    """Table ``scheduled``; key (run, segment, episode). The denominator."""

    run: str
    segment: int
    episode: str
    phase: str
    split: str
    step: int
    task: str
    task_index: int
    task_digest: str
    category: str
    goal: str
    sample: int
    horizon: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """Table ``turns``; key (run, segment, episode, attempt, turn). Travels inside its attempt's journal line."""

    turn: int
    """From 1."""
    observation: str
    text: str
    action: str
    valid: bool
    reward: float | None
    done: bool
    response_tokens: int
    context_tokens: int
    policy_seconds: float
    env_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensRecord:
    """Token ids of an attempt, kept when the recipe says so; inside its attempt's journal line."""

    token_ids: tuple[int, ...]
    action_mask: tuple[bool, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """Table ``attempts``; key (run, segment, episode, attempt)."""

    run: str
    segment: int
    episode: str
    attempt: int
    seed: int
    stop: str
    outcome: str
    truncated: bool
    cause: str | None
    detail: str
    action_induced: bool
    reward: float | None
    turns_count: int
    invalid_actions: int
    prompt_tokens: int
    action_tokens: int
    policy_version: int | None
    seconds: float
    policy_seconds: float
    env_seconds: float
    replica: str
    final_observation: str
    ended: str
    """UTC, ISO 8601; never part of a digest."""
    turns: tuple[TurnRecord, ...] = ()
    tokens: TokensRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """Table ``outcomes``; key (run, segment, episode). Written once no further attempt will be made. Scheduled episodes without one are missing."""

    run: str
    segment: int
    episode: str
    attempt: int
    """The attempt that counts."""
    attempts: int
    """How many were made."""
    outcome: str
    first_outcome: str
    """What it would have counted as without retries."""
    reward: float | None
    by_verifier: bool
    """False: the outcome was read from the reward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRecord:
    """Table ``metrics``; key (run, segment, phase, step, name)."""

    run: str
    segment: int
    phase: str
    step: int
    name: str
    value: float | None
    """None when it is undefined (no data), never 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRecord:
    """Table ``probes``; key (run, segment, url, name)."""

    run: str
    segment: int
    url: str
    name: str
    result: str
    """``pass``, ``fail``, ``n/a`` or ``known deviation``."""
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecord:
    """Table ``checkpoints``; key (run, segment, step)."""

    run: str
    segment: int
    step: int
    path: str
    """Relative to the run's folder."""
    digest: str
    """SHA-256 of the weights file."""


Record = RunRecord | SegmentRecord | ScheduledRecord | AttemptRecord | OutcomeRecord | MetricRecord | ProbeRecord | CheckpointRecord
