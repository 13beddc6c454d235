"""What happens in a run becomes records: the journal first, the store when it is free. Knows no environment and no model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from agentgym_cli.env.replicas import ServerChange
from agentgym_cli.episode.runner import EpisodeResult
from agentgym_cli.episode.types import AttemptResult, ScheduledEpisode
from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import Patience
from agentgym_cli.store.journal import Journal
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import HURRIED, PATIENT
from agentgym_cli.store.records import (
    AttemptRecord,
    CheckpointRecord,
    MetricRecord,
    ProbeRecord,
    Record,
    SegmentRecord,
    ServerRecord,
)
from agentgym_cli.verbs.history import NOTHING, Spent
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recording import KeepTokens, attempt_record, outcome_record, scheduled_record, utc_now

LOAD_SECONDS = 15.0
"""Least time between two loads of a running run into the store."""


class Recorder:
    """The only writer of one segment of one run."""

    def __init__(
        self,
        *,
        folder: Path,
        run: str,
        segment: int,
        database: Path,
        keep_tokens: KeepTokens,
        progress: Progress,
        drift: tuple[str, ...] = (),
        spent: Spent = NOTHING,
    ) -> None:
        """``drift``: what is not as the run was frozen, in sentences, recorded with the segment; ``spent``: what earlier segments used."""
        self._folder, self._run, self._segment = folder, run, segment
        self._database, self._keep_tokens, self._progress = database, keep_tokens, progress
        self._drift = drift
        self._journal = Journal(folder, segment)
        self._spent, self._began = spent, time.monotonic()
        self._server_changes = 0
        self._loaded = time.monotonic()
        self._warned = False
        self.store_trouble: StoreError | None = None
        """Why the last load failed; None when the store has everything up to it."""

    @property
    def segment(self) -> int:
        """Number of the segment."""
        return self._segment

    def write(self, record: Record) -> None:
        """Append one record. Raises StoreError when the journal cannot be written."""
        self._journal.append(record)

    def begin_segment(self, resumed_from_step: int | None, started: str) -> None:
        """Open the segment."""
        self.write(self._segment_record(resumed_from_step, started, ended=None, status=None))

    def end_segment(self, resumed_from_step: int | None, started: str, status: str) -> None:
        """Close the segment, load everything into the store and close the journal."""
        self.write(self._segment_record(resumed_from_step, started, ended=utc_now(), status=status))
        self._journal.sync()
        self.load()

    def close(self) -> None:
        """Close the journal; a full disk is not reported twice."""
        self._journal.close()

    def schedule(self, episodes: Sequence[ScheduledEpisode]) -> None:
        """Write a schedule down before any of it may run."""
        for episode in episodes:
            self.write(scheduled_record(episode, run=self._run, segment=self._segment))
        self._journal.sync()

    def attempt(self, result: AttemptResult) -> None:
        """Record one finished attempt, and how far the run is with it."""
        self.attempted(attempt_record(result, run=self._run, segment=self._segment, keep_tokens=self._keep_tokens))

    def attempted(self, record: AttemptRecord) -> None:
        """Write an attempt's record, with how far the run is with it filled in."""
        self._spent = Spent(
            turns=self._spent.turns + record.turns_count,
            read=self._spent.read + sum(turn.context_tokens for turn in record.turns),
            sampled=self._spent.sampled + record.action_tokens,
            seconds=self._spent.seconds,
        )
        self.write(
            replace(
                record,
                run_turns=self._spent.turns,
                run_tokens_read=self._spent.read,
                run_tokens_sampled=self._spent.sampled,
                run_seconds=self._spent.seconds + time.monotonic() - self._began,
            )
        )

    def outcome(self, result: EpisodeResult) -> None:
        """Record what a scheduled episode counts as."""
        self.write(outcome_record(result, run=self._run, segment=self._segment))

    def metrics(self, phase: str, step: int, values: Mapping[str, float | None]) -> None:
        """Record the numbers of one step of a phase."""
        for name, value in values.items():
            self.write(MetricRecord(run=self._run, segment=self._segment, phase=phase, step=step, name=name, value=value))

    def probed(self, url: str, name: str, result: str, detail: str, seconds: float) -> None:
        """Record one check of one server."""
        self.write(ProbeRecord(run=self._run, segment=self._segment, url=url, name=name, result=result, detail=detail, seconds=seconds))

    def server_changed(self, change: ServerChange) -> None:
        """Record that a server was given up or taken back."""
        self.server_said(change.url, change.event, change.cause.value if change.cause else None, change.detail)

    def server_said(self, url: str, event: str, cause: str | None, detail: str) -> None:
        """The same for a change that another process saw."""
        self._server_changes += 1
        self.write(
            ServerRecord(
                run=self._run,
                segment=self._segment,
                number=self._server_changes,
                url=url,
                event=event,
                cause=cause,
                detail=detail,
                happened=utc_now(),
            )
        )

    def sync(self) -> None:
        """Put everything recorded so far on the disk."""
        self._journal.sync()

    def checkpoint(self, step: int, path: str, digest: str) -> None:
        """Record a checkpoint that is completely written."""
        self.write(CheckpointRecord(run=self._run, segment=self._segment, step=step, path=path, digest=digest))
        self._journal.sync()

    def load_if_due(self) -> None:
        """Load into the store when the last load is long enough ago."""
        if time.monotonic() - self._loaded >= LOAD_SECONDS:
            self.load(HURRIED)

    def load(self, patience: Patience = PATIENT) -> None:
        """Load the journal into the store. The journal is the record: a store that cannot be loaded now costs one warning, never the run."""
        try:
            load(self._folder, self._database, patience)
            self.store_trouble = None
        except StoreError as trouble:
            if not self._warned:
                self._progress.warn(f"{trouble.message}; the run goes on, its journal is complete and is loaded later")
            self._warned = True
            self.store_trouble = trouble
        self._loaded = time.monotonic()

    def _segment_record(self, resumed_from_step: int | None, started: str, *, ended: str | None, status: str | None) -> SegmentRecord:
        return SegmentRecord(
            run=self._run,
            segment=self._segment,
            resumed_from_step=resumed_from_step,
            started=started,
            ended=ended,
            status=status,
            drift=self._drift,
        )


@asynccontextmanager
async def loading(recorder: Recorder) -> AsyncIterator[None]:
    """Load records into the store now and then, for whoever reads while the run lives."""

    async def now_and_then() -> None:
        while True:
            await asyncio.sleep(1.0)
            recorder.load_if_due()

    task = asyncio.ensure_future(now_and_then())
    try:
        yield
    finally:
        task.cancel()
