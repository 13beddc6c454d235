"""What queries about single episodes take and return; texts are foreign and come cut, with their whole length beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Sort = Literal["schedule", "task", "outcome", "reward", "turns", "seconds", "attempts", "tokens", "invalid"]
SORTS: tuple[Sort, ...] = ("schedule", "task", "outcome", "reward", "turns", "seconds", "attempts", "tokens", "invalid")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeFilter:
    """Which scheduled episodes of a run are meant; None asks for nothing."""

    phase: str | None = None
    split: str | None = None
    step: int | None = None
    task: str | None = None
    category: str | None = None
    horizon: int | None = None
    """Of one stage of the horizon."""
    outcome: str | None = None
    stop: str | None = None
    cause: str | None = None
    reward_from: float | None = None
    reward_to: float | None = None
    turns_from: int | None = None
    turns_to: int | None = None
    text: str | None = None
    """In what the world or the policy said in any turn of any attempt, whatever the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow:
    """One scheduled episode with its outcome and the attempt that counts."""

    episode: str
    phase: str
    split: str
    step: int
    task: str
    category: str
    goal: str
    sample: int
    horizon: int | None
    outcome: str
    attempts: int
    attempt: int | None
    reward: float | None
    by_verifier: bool | None
    stop: str | None
    cause: str | None
    turns: int | None
    invalid_actions: int | None
    action_tokens: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePage:
    """Some episodes in order, and how many there are in all."""

    rows: tuple[EpisodeRow, ...]
    total: int
    before: int
    """How many come before the first of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """What stands around an episode among those that a filter lets through."""

    previous: str | None
    next: str | None
    previous_failure: str | None
    next_failure: str | None
    place: int
    """From 1; how many come up to here."""
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRow:
    """Episodes of a run that are alike in everything a filter offers as a choice."""

    phase: str
    split: str
    step: int
    category: str
    horizon: int | None
    outcome: str
    stop: str | None
    cause: str | None
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TryRow:
    """One attempt at an episode, without its turns and tokens."""

    segment: int
    attempt: int
    superseded: bool
    stop: str | None
    outcome: str | None
    truncated: bool | None
    cause: str | None
    detail: str
    action_induced: bool | None
    reward: float | None
    verified: bool | None
    turns: int
    invalid_actions: int | None
    prompt_tokens: int | None
    action_tokens: int | None
    policy_version: int | None
    seconds: float | None
    policy_seconds: float | None
    env_seconds: float | None
    replica: str | None
    final_observation: str
    final_length: int
    seed: int | None
    ended: str | None
    tokens: int | None
    """Token ids that were kept; None where none were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One turn; texts are cut."""

    turn: int
    observation: str
    observation_length: int
    text: str
    text_length: int
    action: str | None
    action_length: int | None
    valid: bool | None
    reward: float | None
    done: bool | None
    response_tokens: int | None
    context_tokens: int | None
    policy_seconds: float | None
    env_seconds: float | None
    cut: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One token of a trajectory."""

    place: int
    """From 1."""
    token: int
    sampled: bool
    logprob: float
    """In nats; 0 where the token was fed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptKey:
    """Which attempt is meant."""

    run: str
    segment: int
    episode: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where two attempts part."""

    turn: int
    """The first turn in which one was shown, did or was given something else; the last one where only their endings differ."""
    ending: bool
    """All their turns are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRow:
    """What was played of one task in one part of a run: the first sample of each kind."""

    task: str
    success: str | None
    """An episode that succeeded; None where none did."""
    other: str | None
    """One that did not."""
