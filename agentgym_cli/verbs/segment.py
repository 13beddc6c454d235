"""One segment of a run: opened in the journal, closed with how it ended, loaded into the store. Knows no phase."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentgym_cli.errors import Interrupted, StoreError
from agentgym_cli.recipe.fingerprint import fingerprint
from agentgym_cli.recipe.resolve import environment
from agentgym_cli.store.journal import next_segment, read_journal
from agentgym_cli.store.records import Record, RunRecord
from agentgym_cli.verbs.history import EMPTY, History, read_history
from agentgym_cli.verbs.prepare import Prepared, create_folder
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder, utc_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a verb's run ended, for whoever reports on it."""

    prepared: Prepared
    degraded: str | None
    """Why the run counts as degraded; None when it does not."""


def earlier_records(prepared: Prepared) -> list[Record]:
    """Everything earlier segments recorded; nothing for a new run."""
    return list(read_journal(prepared.folder)) if prepared.resumed else []


@contextmanager
def open_segment(
    prepared: Prepared, *, verb: str, policy: str, resumed_from_step: int | None, progress: Progress
) -> Iterator[tuple[Recorder, History]]:
    """A recorder for the next segment, and what still counts of the earlier ones.

    The segment's record says at the end whether it finished, was interrupted or failed. Whatever happens, the journal is closed and the store
    loaded if it is free.
    """
    if not prepared.resumed:
        create_folder(prepared)
    records = earlier_records(prepared)
    history = EMPTY if resumed_from_step is None else read_history(records, resumed_from_step)
    recorder = Recorder(
        folder=prepared.folder,
        run=prepared.name,
        segment=next_segment(prepared.folder),
        database=prepared.database,
        keep_tokens=prepared.run.store.keep_tokens,
        progress=progress,
    )
    started = utc_now()
    try:
        if not any(isinstance(record, RunRecord) for record in records):
            recorder.write(_run_record(prepared, verb=verb, policy=policy, created=started))
        recorder.begin_segment(resumed_from_step, started)
        status = "failed"
        try:
            yield recorder, history
            status = "finished"
        except (asyncio.CancelledError, Interrupted):
            status = "interrupted"
            raise
        except StoreError:
            # The journal may be what failed: its end cannot be written either.
            status = ""
            raise
        finally:
            if status:
                recorder.end_segment(resumed_from_step, started, status)
    finally:
        recorder.close()


def _run_record(prepared: Prepared, *, verb: str, policy: str, created: str) -> RunRecord:
    run = prepared.run
    return RunRecord(
        run=prepared.name,
        name=run.name,
        verb=verb,
        profile=run.profile,
        profile_reason=run.profile_reason,
        engine=run.engine.kind,
        digest=prepared.frozen.digest,
        env=run.env.dialect,
        policy=policy,
        seed=run.seed,
        created=created,
        frozen=prepared.frozen.to_json(),
        fingerprint=fingerprint(threads=run.engine.threads, variables=environment()),
    )
