"""What earlier segments of a run left in its journal, as a resume needs it. Reads records only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from sys import intern

from agentgym_cli.episode.types import Outcome
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, Record, RunRecord, ScheduledRecord, SegmentRecord, TurnRecord, position


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
    """Recorded attempts by episode id, in order; those without an outcome are left out, they are made again under their number. Texts are kept
    of demonstrations only."""
    spent: Spent = NOTHING


EMPTY = History(segments=0, scheduled=frozenset(), outcomes={}, attempts={})


class Past:
    """What the records of a journal add up to, read one by one: of an attempt no more is kept than a resume asks for."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.run: RunRecord | None = None
        """The run's own record; None where there is none yet."""
        self.last_segment = 0
        """The highest segment number, 0 in an empty journal."""
        self._resumed: dict[int, int] = {}
        self._positions: dict[tuple[int, str], int] = {}
        self._latest: dict[str, int] = {}
        self._outcomes: list[tuple[int, str, str]] = []
        self._attempts: list[AttemptRecord] = []
        self._turns = self._read = self._sampled = 0
        self._seconds = 0.0
        for record in records:
            self._add(record)

    @property
    def spent(self) -> Spent:
        """What the recorded attempts took."""
        return Spent(turns=self._turns, read=self._read, sampled=self._sampled, seconds=self._seconds)

    def history(self, resumed_from_step: int) -> History:
        """What still counts when a new segment continues from ``resumed_from_step`` (see SegmentRecord for the rule)."""
        limits = self._limits(resumed_from_step)

        def counts(segment: int, episode: str) -> bool:
            place = self._positions.get((segment, episode), self._latest.get(episode))
            return place is not None and place <= limits.get(segment, resumed_from_step)

        attempts: dict[str, tuple[AttemptRecord, ...]] = {}
        for record in self._attempts:
            if record.outcome != Outcome.MISSING and counts(record.segment, record.episode):
                attempts[record.episode] = (*attempts.get(record.episode, ()), record)
        return History(
            segments=self.last_segment,
            scheduled=frozenset(episode for segment, episode in self._positions if counts(segment, episode)),
            outcomes={episode: outcome for segment, episode, outcome in self._outcomes if counts(segment, episode)},
            attempts=attempts,
            spent=self.spent,
        )

    def _add(self, record: Record) -> None:
        if isinstance(record, AttemptRecord):
            self._add_attempt(record)
        elif isinstance(record, OutcomeRecord):
            self._outcomes.append((record.segment, intern(record.episode), intern(record.outcome)))
        elif isinstance(record, ScheduledRecord):
            episode = intern(record.episode)
            self._latest[episode] = self._positions[record.segment, episode] = position(record.phase, record.step)
        elif isinstance(record, SegmentRecord):
            self.last_segment = max(self.last_segment, record.segment)
            if record.resumed_from_step is not None:
                self._resumed[record.segment] = record.resumed_from_step
        elif isinstance(record, RunRecord):
            self.run = self.run or record

    def _add_attempt(self, record: AttemptRecord) -> None:
        self._turns += record.turns_count
        self._read += sum(turn.context_tokens for turn in record.turns)
        self._sampled += record.action_tokens
        self._seconds = max(self._seconds, record.run_seconds or 0.0)
        self._attempts.append(_light(record))

    def _limits(self, resumed_from_step: int) -> dict[int, int]:
        """Highest position that still counts, by segment: the lowest step any later segment, the new one included, resumed from."""
        limits, lowest = {}, resumed_from_step
        for segment in range(self.last_segment, 0, -1):
            limits[segment] = lowest
            lowest = min(lowest, self._resumed.get(segment, lowest))
        return limits


def read_history(records: Iterable[Record], resumed_from_step: int) -> History:
    """``Past.history`` of ``records``."""
    return Past(records).history(resumed_from_step)


def _light(record: AttemptRecord) -> AttemptRecord:
    """What a resume asks of an attempt: its words only of a demonstration; else how many turns it had and the action before a failure."""
    if record.episode.startswith(("warm_start/", "demonstrate/")):
        return replace(record, tokens=None)
    last = record.turns[-1:] if record.outcome == Outcome.INFRA_ERROR else ()
    turns = tuple(_SAID if turn.valid else _UNREADABLE for turn in record.turns[: len(record.turns) - len(last)])
    ending = tuple(replace(turn, observation="", text="") for turn in last)
    # Text that a million attempts have in common is kept once.
    return replace(
        record,
        run=intern(record.run),
        episode=intern(record.episode),
        stop=intern(record.stop),
        outcome=intern(record.outcome),
        replica=intern(record.replica),
        ended="",
        final_observation="",
        tokens=None,
        turns=(*turns, *ending),
    )


_UNREADABLE = TurnRecord(
    turn=0,
    observation="",
    text="",
    action="",
    valid=False,
    reward=None,
    done=False,
    response_tokens=0,
    context_tokens=0,
    policy_seconds=0.0,
    env_seconds=0.0,
)
_SAID = replace(_UNREADABLE, valid=True)
"""Stand for the turns of an attempt of which only the number matters."""
