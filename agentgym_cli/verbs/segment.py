"""One segment of a run: its folder held, opened in the journal, closed with how it ended, loaded into the store. Knows no phase."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from shlex import quote

from agentgym_cli.env.contract import ServersLost
from agentgym_cli.errors import Interrupted, RecipeError, StoreError
from agentgym_cli.recipe.drift import diff
from agentgym_cli.recipe.fingerprint import fingerprint, fingerprint_differences
from agentgym_cli.recipe.frozen_file import parse_frozen
from agentgym_cli.recipe.resolve import environment, visible_gpus
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import listed
from agentgym_cli.store.journal import next_segment, read_journal
from agentgym_cli.store.records import RunRecord
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.history import EMPTY, History, Past
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.recording import utc_now

HOLD_FILE = ".held"
_NAMED_DIFFERENCES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a verb's run ended, for whoever reports on it."""

    prepared: Prepared
    degraded: str | None
    """Why the run counts as degraded; None when it does not."""
    store_trouble: StoreError | None
    """Why the store could not be loaded at the end; it was said once already. None when it was."""

    def unloaded(self, trouble: StoreError) -> StoreError:
        """What a run ends with whose store cannot be loaded or read now."""
        prepared = self.prepared
        runs, store = quote(str(prepared.folder.parent)), quote(str(prepared.database))
        return StoreError(
            f"{prepared.folder}: played and kept, but not reported, since its store cannot be used: {trouble.message}",
            f"once it can: agentgym store rebuild --runs-dir {runs} --store {store} && agentgym report {quote(prepared.name)} --store {store}",
        )


@contextmanager
def open_segment(
    prepared: Prepared, *, verb: str, policy: str, resumed_from_step: int | None, progress: Progress
) -> Iterator[tuple[Recorder, History]]:
    """A recorder for the next segment, and what still counts of the earlier ones.

    The segment's record says at the end whether it finished, was interrupted or failed, and the journal is closed whatever happens.

    Raises:
        StoreError: another process works on this run, or the journal cannot be written.
        RecipeError: the run belongs to the other verb, another policy or another frozen run.
    """
    with hold(prepared):
        past = Past(read_journal(prepared.folder)) if prepared.resumed else Past()
        known = past.run
        here = _run_record(prepared, verb=verb, policy=policy)
        if known is not None:
            _compare(known, here, prepared, progress)
        recorder = Recorder(
            folder=prepared.folder,
            run=prepared.name,
            segment=next_segment(prepared.folder),
            database=prepared.database,
            keep_tokens=prepared.run.store.keep_tokens,
            drift=prepared.allowed,
            spent=past.spent,
            progress=progress,
        )
        try:
            if known is None:
                recorder.write(here)
            with _recorded(recorder, resumed_from_step, progress):
                lock, drift = f"lockfiles/{prepared.run.engine.stack}.txt", prepared.drift
                recorder.probed(lock, "lock", "known deviation" if drift else "pass", drift or "as locked", 0.0)
                yield recorder, EMPTY if resumed_from_step is None else past.history(resumed_from_step)
        finally:
            recorder.close()


@contextmanager
def _recorded(recorder: Recorder, resumed_from_step: int | None, progress: Progress) -> Iterator[None]:
    """Write the segment's beginning and end around the block. What ends the block is what is raised, also when the end cannot be written."""
    started = utc_now()
    recorder.begin_segment(resumed_from_step, started)
    status = "failed"
    try:
        yield
        status = "finished"
    except (asyncio.CancelledError, Interrupted, ServersLost):
        status = "interrupted"
        raise
    finally:
        try:
            recorder.end_segment(resumed_from_step, started, status)
        except StoreError as trouble:
            if status == "finished":
                raise
            progress.warn(f"the end of this segment could not be recorded: {trouble.message}")


@contextmanager
def hold(prepared: Prepared) -> Iterator[None]:
    """Hold the run's folder, so that two processes never work on one run. Raises StoreError when it is held; a kill releases it."""
    path = prepared.folder / HOLD_FILE
    try:
        held = path.open("w")
    except OSError as err:
        raise StoreError(f"{path}: cannot open it: {err.strerror or err}", "fix the folder's permissions") from err
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            raise StoreError(f"{prepared.folder}: expected a run that nobody works on, got one that another process has open", "wait for it") from err
        yield


def _compare(known: RunRecord, here: RunRecord, prepared: Prepared, progress: Progress) -> None:
    """Refuse a run of another digest, verb or policy; say what a resume does not have in common with the first start."""
    if known.digest != here.digest:
        raise RecipeError(
            f"{prepared.folder}: expected the run that was started here, digest {known.digest[:12]}, "
            f"got {FROZEN_FILE} of another, digest {here.digest[:12]}{_other_keys(known, prepared)}",
            f"put its own {FROZEN_FILE} back, or start a new run",
        )
    if (known.verb, known.policy) != (here.verb, here.policy):
        raise RecipeError(
            f"{prepared.folder}: expected a run of agentgym {here.verb} with policy {here.policy}, "
            f"got one of agentgym {known.verb} with policy {known.policy}",
            prepared.resume_command(known.verb),
        )
    differences: Sequence[str] = fingerprint_differences(known.fingerprint, here.fingerprint)
    if differences:
        more = f" and {len(differences) - _NAMED_DIFFERENCES} more" if len(differences) > _NAMED_DIFFERENCES else ""
        progress.warn(f"this machine is not as it was, equal bits are not promised: {'; '.join(differences[:_NAMED_DIFFERENCES])}{more}")


def _other_keys(known: RunRecord, prepared: Prepared) -> str:
    """The keys in which two frozen runs differ; nothing where the recorded one is of a version that cannot be read."""
    try:
        differences = diff(parse_frozen(known.frozen, where=known.run), prepared.frozen)
    except RecipeError:
        return ""
    return f": other {listed(each.key for each in differences)}"


def _run_record(prepared: Prepared, *, verb: str, policy: str) -> RunRecord:
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
        created=utc_now(),
        frozen=prepared.frozen.to_json(),
        fingerprint=fingerprint(threads=run.engine.threads, variables=environment(), gpus=_gpus(run)),
    )


def _gpus(run: Run) -> tuple[str, ...]:
    """Names of the GPUs of this machine that a run uses; none of a Ray cluster that was there before, whose GPUs may be others."""
    cluster = run.cluster
    own = run.engine.kind == "verl" and cluster is not None and cluster.gpus_per_node > 0 and cluster.ray_address is None
    return visible_gpus().names if run.engine.device == "cuda" or own else ()
