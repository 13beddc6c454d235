"""What earlier segments of a run left in its journal, as a resume needs it. Reads records only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentgym_cli.episode.types import Outcome
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, Record, ScheduledRecord, SegmentRecord, position


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has used so far, all its attempts taken together, superseded ones and those without an outcome included."""

    turns: int = 0
    read: int = 0
    """Tokens that the policy was given: its context at each call."""
    sampled: int = 0
    seconds: float = 0.0
    """Wall seconds, up to the last attempt of each segment."""


NOTHING = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The records of a run that a new segment builds on."""

    segments: int
    """Segments so far."""
    scheduled: frozenset[str]
    """Ids of episodes already written down."""
    outcomes: dict[str, str]
    """Outcome by episode id, where it is final."""
    attempts: dict[str, tuple[AttemptRecord, ...]]
    """Recorded attempts by episode id, in order; those without an outcome are left out, they are made again under their number."""
    spent: Spent = NOTHING


EMPTY = History(segments=0, scheduled=frozenset(), outcomes={}, attempts={})


def last_segment(records: Iterable[Record]) -> int:
    """The highest segment number in a journal, 0 when it is empty."""
    return max((record.segment for record in records if isinstance(record, SegmentRecord)), default=0)


def read_history(records: Sequence[Record], resumed_from_step: int) -> History:
    """Gather what still counts when a new segment continues from ``resumed_from_step`` (see SegmentRecord for the rule)."""
    limits = _limits(records, resumed_from_step)
    positions = {(record.segment, record.episode): position(record.phase, record.step) for record in records if isinstance(record, ScheduledRecord)}
    latest: dict[str, int] = {}
    for record in records:
        if isinstance(record, ScheduledRecord):
            latest[record.episode] = position(record.phase, record.step)

    def counts(segment: int, episode: str) -> bool:
        place = positions.get((segment, episode), latest.get(episode))
        return place is not None and place <= limits.get(segment, resumed_from_step)

    outcomes = {r.episode: r.outcome for r in records if isinstance(r, OutcomeRecord) and counts(r.segment, r.episode)}
    attempts: dict[str, tuple[AttemptRecord, ...]] = {}
    for record in records:
        if isinstance(record, AttemptRecord) and record.outcome != Outcome.MISSING and counts(record.segment, record.episode):
            attempts[record.episode] = (*attempts.get(record.episode, ()), record)
    scheduled = frozenset(r.episode for r in records if isinstance(r, ScheduledRecord) and counts(r.segment, r.episode))
    return History(segments=last_segment(records), scheduled=scheduled, outcomes=outcomes, attempts=attempts, spent=spent_in(records))


def spent_in(records: Iterable[Record]) -> Spent:
    """Add up what the recorded attempts took."""
    attempts = [record for record in records if isinstance(record, AttemptRecord)]
    return Spent(
        turns=sum(attempt.turns_count for attempt in attempts),
        read=sum(turn.context_tokens for attempt in attempts for turn in attempt.turns),
        sampled=sum(attempt.action_tokens for attempt in attempts),
        seconds=max((attempt.run_seconds or 0.0 for attempt in attempts), default=0.0),
    )


def _limits(records: Sequence[Record], resumed_from_step: int) -> dict[int, int]:
    """Highest position that still counts, by segment: the lowest step any later segment, the new one included, resumed from."""
    resumed = {r.segment: r.resumed_from_step for r in records if isinstance(r, SegmentRecord) and r.resumed_from_step is not None}
    limits: dict[int, int] = {}
    for segment in range(1, last_segment(records) + 1):
        later = [step for number, step in resumed.items() if number > segment]
        limits[segment] = min([*later, resumed_from_step])
    return limits
