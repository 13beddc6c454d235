"""What happened in an episode, as records and back. Pure; the writer of a run fills in how far the run is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.runner import EpisodeResult
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason, Trajectory, Turn
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, ScheduledRecord, TokensRecord, TurnRecord

KeepTokens = Literal["all", "failures", "none"]
"""Attempts of which tokens are kept."""


def utc_now() -> str:
    """The present, UTC, ISO 8601 with milliseconds: what a short run took is a difference of two of these."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def scheduled_record(episode: ScheduledEpisode, *, run: str, segment: int) -> ScheduledRecord:
    """A scheduled episode."""
    task = episode.task
    return ScheduledRecord(
        run=run,
        segment=segment,
        episode=episode.id,
        phase=episode.phase,
        split=task.split,
        step=episode.step,
        task=task.id,
        task_index=task.index,
        task_digest=task.digest,
        category=task.category,
        goal=task.goal,
        sample=episode.sample,
        horizon=episode.horizon,
    )


def outcome_record(result: EpisodeResult, *, run: str, segment: int) -> OutcomeRecord:
    """What a scheduled episode counts as."""
    final, first = result.final, result.attempts[0]
    return OutcomeRecord(
        run=run,
        segment=segment,
        episode=result.episode.id,
        attempt=final.attempt,
        attempts=len(result.attempts),
        outcome=final.outcome.value,
        first_outcome=first.outcome.value,
        reward=final.reward,
        by_verifier=final.verified is not None,
    )


def attempt_record(result: AttemptResult, *, run: str, segment: int, keep_tokens: KeepTokens) -> AttemptRecord:
    """A finished attempt, without how far the run is with it."""
    trajectory = result.trajectory
    return AttemptRecord(
        run=run,
        segment=segment,
        episode=result.episode.id,
        attempt=result.attempt,
        seed=result.seed,
        stop=result.stop.value,
        outcome=result.outcome.value,
        truncated=result.truncated,
        cause=result.cause.value if result.cause else None,
        detail=result.detail,
        action_induced=result.action_induced,
        reward=result.reward,
        verified=result.verified,
        turns_count=len(result.turns),
        invalid_actions=sum(not turn.valid for turn in result.turns),
        prompt_tokens=result.prompt_tokens,
        action_tokens=result.action_tokens,
        policy_version=trajectory.policy_version if trajectory else None,
        seconds=result.seconds,
        policy_seconds=result.policy_seconds,
        env_seconds=result.env_seconds,
        replica=result.replica,
        final_observation=result.final_observation,
        ended=utc_now(),
        turns=_turns(result),
        tokens=_tokens(trajectory) if trajectory and _keeps(keep_tokens, result) else None,
    )


def _keeps(keep: KeepTokens, result: AttemptResult) -> bool:
    return keep == "all" or (keep == "failures" and result.outcome is not Outcome.SUCCESS)


def _turns(result: AttemptResult) -> tuple[TurnRecord, ...]:
    return tuple(
        TurnRecord(
            turn=number,
            observation=turn.observation,
            text=turn.text,
            action=turn.action,
            valid=turn.valid,
            reward=turn.reward,
            done=turn.done,
            response_tokens=turn.response_tokens,
            context_tokens=turn.context_tokens,
            policy_seconds=turn.policy_seconds,
            env_seconds=turn.env_seconds,
            cut=turn.cut,
        )
        for number, turn in enumerate(result.turns, start=1)
    )


def _tokens(trajectory: Trajectory) -> TokensRecord:
    return TokensRecord(
        token_ids=trajectory.token_ids,
        action_mask=trajectory.action_mask,
        logprobs=trajectory.logprobs,
        policy_versions=tuple(version for version, _ in trajectory.versions) or None,
        policy_version_tokens=tuple(tokens for _, tokens in trajectory.versions) or None,
    )


def restore(record: AttemptRecord, episode: ScheduledEpisode) -> AttemptResult:
    """An attempt as its record remembers it; tokens are not restored, an attempt that is not run again needs none."""
    return AttemptResult(
        episode=episode,
        attempt=record.attempt,
        seed=record.seed,
        stop=StopReason(record.stop),
        outcome=Outcome(record.outcome),
        truncated=record.truncated,
        cause=InfraCause(record.cause) if record.cause else None,
        detail=record.detail,
        action_induced=record.action_induced,
        reward=record.reward,
        verified=record.verified,
        final_observation=record.final_observation,
        turns=tuple(_restored_turn(turn) for turn in record.turns),
        trajectory=None,
        prompt_tokens=record.prompt_tokens,
        action_tokens=record.action_tokens,
        seconds=record.seconds,
        policy_seconds=record.policy_seconds,
        env_seconds=record.env_seconds,
        replica=record.replica,
    )


def _restored_turn(turn: TurnRecord) -> Turn:
    return Turn(
        observation=turn.observation,
        text=turn.text,
        action=turn.action,
        valid=turn.valid,
        reward=turn.reward,
        done=turn.done,
        response_tokens=turn.response_tokens,
        context_tokens=turn.context_tokens,
        policy_seconds=turn.policy_seconds,
        env_seconds=turn.env_seconds,
        cut=turn.cut,
    )
