"""The named questions that a capacity estimate asks of a store: what episodes and turns of a run took. Returns rows; computes no rate."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_cli.store.db import Connection
from agentgym_cli.store.queries import fetch

MOST_DRAWN = 4000
"""Episodes, and turns, whose own values are returned; drawn evenly by a hash of their names, so that the same store gives the same ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRow:
    """Sums over the scored episodes of some phases, all attempts at them included."""

    scheduled: int
    scored: int
    success: int
    horizon: int | None
    """The longest."""
    attempts: int
    infra_errors: int
    turns: int | None
    prompt_tokens: float | None
    """Mean of the first context; None for a policy without tokens."""
    sampled: int | None
    """Tokens."""
    seconds: float | None
    """Of attempts, which run side by side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow:
    """One scored episode."""

    turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """One kept turn."""

    policy_seconds: float
    env_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRow:
    """Tokens of observations between two turns of one episode, summed over kept turns behind a first one."""

    turns: int
    observed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetsRow:
    """What scored attempts took of the world beside their turns: opening a session, the reset, a verifier."""

    seconds: float | None
    """Mean; None where turns were not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsRow:
    """Times of training steps, of those that kept them."""

    steps: int
    seconds: float | None
    """Mean of a step, whole."""
    play: float | None
    """Mean of its episodes."""


_PHASES = "case when ? then phase = 'train' else starts_with(phase, 'eval') end"
_NAMED = "case when ? then starts_with(episode, 'train/') else starts_with(episode, 'eval') end"

_PLAYED = f"""
select
    count(*) as scheduled, count(*) filter (outcome in ('success', 'failure')) as scored, count(*) filter (outcome = 'success') as success,
    max(horizon) as horizon, cast(coalesce(sum(spent_attempts), 0) as bigint) as attempts,
    cast(coalesce(sum(spent_infra_errors), 0) as bigint) as infra_errors, try_cast(sum(spent_turns) as bigint) as turns,
    avg(prompt_tokens) filter (prompt_tokens > 0) as prompt_tokens, try_cast(sum(spent_action_tokens) as bigint) as sampled,
    sum(spent_seconds) as seconds
from episodes_final where run = ? and {_PHASES}
"""
_EPISODES = f"""
select turns_count as turns
from episodes_final where run = ? and {_PHASES} and outcome in ('success', 'failure') and turns_count > 0
order by hash(episode), episode limit {MOST_DRAWN}
"""
_TURNS = f"""
select policy_seconds, env_seconds
from turns where run = ? and {_NAMED} and policy_seconds is not null and env_seconds is not null
order by hash(episode), episode, segment, attempt, turn limit {MOST_DRAWN}
"""
_GROWTH = f"""
with kept as (
    select
        turn, context_tokens - lag(context_tokens + response_tokens) over (partition by segment, episode, attempt order by turn) as observed
    from turns where run = ? and {_NAMED} and context_tokens > 0
)
select count(*) as turns, try_cast(sum(observed) as bigint) as observed from kept where observed >= 0
"""
_RESETS = f"""
with kept as (
    select segment, episode, attempt, count(*) as turns, sum(env_seconds) as seconds
    from turns where run = ? and {_NAMED} and env_seconds is not null group by segment, episode, attempt
)
select avg(a.env_seconds - k.seconds) as seconds
from attempts a join kept k on a.segment = k.segment and a.episode = k.episode and a.attempt = k.attempt
where a.run = ? and a.outcome in ('success', 'failure') and a.turns_count = k.turns
"""
_STEPS = """
select
    count(*) filter (name = 'time/step_seconds') as steps, avg(value) filter (name = 'time/step_seconds') as seconds,
    avg(value) filter (name = 'time/play_seconds') as play
from metrics_final where run = ? and phase = 'train' and name in ('time/step_seconds', 'time/play_seconds')
"""


def played(connection: Connection, run: str, *, trained: bool) -> PlayedRow:
    """Episodes of training, or of all evaluations."""
    return fetch(connection, PlayedRow, _PLAYED, [run, trained])[0]


def episode_turns(connection: Connection, run: str, *, trained: bool) -> list[EpisodeRow]:
    """Turns of scored episodes, at most ``MOST_DRAWN`` of them."""
    return fetch(connection, EpisodeRow, _EPISODES, [run, trained])


def turn_times(connection: Connection, run: str, *, trained: bool) -> list[TurnRow]:
    """Seconds of kept turns, at most ``MOST_DRAWN`` of them."""
    return fetch(connection, TurnRow, _TURNS, [run, trained])


def growth(connection: Connection, run: str, *, trained: bool) -> GrowthRow:
    """How much observations add to the context."""
    return fetch(connection, GrowthRow, _GROWTH, [run, trained])[0]


def resets(connection: Connection, run: str, *, trained: bool) -> ResetsRow:
    """Of attempts all of whose turns are kept."""
    return fetch(connection, ResetsRow, _RESETS, [run, trained, run])[0]


def steps(connection: Connection, run: str) -> StepsRow:
    """Times of training steps."""
    return fetch(connection, StepsRow, _STEPS, [run])[0]
