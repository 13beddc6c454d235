"""Records with sensible defaults, and journals written from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from agentgym_cli.store.journal import Journal
from agentgym_cli.store.records import (
    AttemptRecord,
    MetricRecord,
    OutcomeRecord,
    Record,
    RunRecord,
    ScheduledRecord,
    SegmentRecord,
    TurnRecord,
)

NOW = "2025-01-01T00:00:00+00:00"


def make_run(run: str = "r1", **changes: object) -> RunRecord:
    record = RunRecord(
        run=run,
        name="textcraft_grpo",
        verb="train",
        profile="laptop",
        profile_reason="no usable GPU",
        engine="local",
        digest="d" * 64,
        env="textcraft",
        policy="local",
        seed=1,
        created=NOW,
        frozen='{"run":{"engine":{"stack":"cpu"}}}',
        fingerprint="{}",
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def make_segment(segment: int = 1, resumed: int | None = None, run: str = "r1", **changes: object) -> SegmentRecord:
    return replace(SegmentRecord(run=run, segment=segment, resumed_from_step=resumed, started=NOW), **changes)  # type: ignore[arg-type]


def make_scheduled(number: int = 0, run: str = "r1", segment: int = 1, **changes: object) -> ScheduledRecord:
    record = ScheduledRecord(
        run=run,
        segment=segment,
        episode="",
        phase="eval",
        split="test",
        step=0,
        task=f"textcraft_{number}",
        task_index=number,
        task_digest="",
        category="depth 1",
        goal="",
        sample=0,
        horizon=6,
    )
    record = replace(record, **changes)  # type: ignore[arg-type]
    return replace(record, episode=f"{record.phase}/{record.split}/{record.step}/{record.task}/{record.sample}")


def make_turn(turn: int = 1, **changes: object) -> TurnRecord:
    record = TurnRecord(
        turn=turn,
        observation="Goal: craft stick.",
        text="Action: get 1 log",
        action="get 1 log",
        valid=True,
        reward=0.0,
        done=False,
        response_tokens=4,
        context_tokens=20,
        policy_seconds=0.1,
        env_seconds=0.01,
    )
    return replace(record, **changes)  # type: ignore[arg-type]


_STOPS = {"success": "done", "failure": "horizon", "infra_error": "env_error", "missing": "cancelled"}


def make_attempt(scheduled: ScheduledRecord, outcome: str = "success", attempt: int = 1, turns: int = 2, **changes: object) -> AttemptRecord:
    record = AttemptRecord(
        run=scheduled.run,
        segment=scheduled.segment,
        episode=scheduled.episode,
        attempt=attempt,
        seed=7,
        stop=_STOPS[outcome],
        outcome=outcome,
        truncated=outcome == "failure",
        cause="server_5xx" if outcome == "infra_error" else None,
        detail="POST /step: expected 200, got 503" if outcome == "infra_error" else "",
        action_induced=False,
        reward={"success": 1.0, "failure": 0.0}.get(outcome),
        turns_count=turns,
        invalid_actions=0,
        prompt_tokens=10,
        action_tokens=4 * turns,
        policy_version=scheduled.step,
        seconds=1.0,
        policy_seconds=0.8,
        env_seconds=0.1,
        replica="http://127.0.0.1:1",
        final_observation="",
        ended=NOW,
        turns=tuple(make_turn(turn) for turn in range(1, turns + 1)),
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def make_outcome(attempt: AttemptRecord, attempts: int = 1, first: str | None = None, **changes: object) -> OutcomeRecord:
    record = OutcomeRecord(
        run=attempt.run,
        segment=attempt.segment,
        episode=attempt.episode,
        attempt=attempt.attempt,
        attempts=attempts,
        outcome=attempt.outcome,
        first_outcome=first or attempt.outcome,
        reward=attempt.reward,
        by_verifier=False,
    )
    return replace(record, **changes)  # type: ignore[arg-type]


def make_metric(name: str, value: float | None, step: int = 1, phase: str = "train", segment: int = 1, run: str = "r1") -> MetricRecord:
    return MetricRecord(run=run, segment=segment, phase=phase, step=step, name=name, value=value)


def settled(scheduled: ScheduledRecord, outcome: str, **changes: object) -> list[Record]:
    """A scheduled episode, its only attempt and its outcome; ``missing`` leaves the latter two out."""
    if outcome == "missing":
        return [scheduled]
    attempt = make_attempt(scheduled, outcome, **changes)  # type: ignore[arg-type]
    return [scheduled, attempt, make_outcome(attempt)]


def write_journal(run_dir: Path, *segments: Iterable[Record]) -> Path:
    """Write each list of records as one segment of the run; returns the run's folder."""
    for number, records in enumerate(segments, start=1):
        with Journal(run_dir, number) as journal:
            for record in records:
                journal.append(record)
    return run_dir
