"""Making a store again from journals. Knows no report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import NotAStore, Patience, StoreBusy, rows_of
from agentgym_cli.store.gates import GateRow, every_decision, record_gates
from agentgym_cli.store.journal import journal_folder
from agentgym_cli.store.loader import LoadReport, load_into
from agentgym_cli.store.migrations import NewerStore
from agentgym_cli.store.opening import PATIENT, open_for_writing


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What a store was made again from."""

    runs: tuple[LoadReport, ...]
    set_aside: Path | None
    """Where the old store is that could not be opened, with whatever gates decided in it; None where it could be."""


def rebuild(runs_dir: Path, database: Path, patience: Patience = PATIENT) -> Rebuilt:
    """Make a store again from every journal under ``runs_dir``; the old file is replaced only once the new one is complete.

    One that cannot be opened is moved aside, not deleted.

    Raises:
        StoreBusy: another process holds the store.
        NotAStore: the file that is there is no store.
        NewerStore: a newer agentgym made it.
        StoreError: there is no journal, a journal cannot be believed, or the store has runs of which there is none here; the old store is
            left as it was.
    """
    run_dirs = sorted(folder for folder in runs_dir.glob("*") if journal_folder(folder).is_dir())
    _refuse_outside(runs_dir, run_dirs)
    if not run_dirs:
        raise StoreError(
            f"{runs_dir}: expected folders with a journal, got none", hint="name the folder of runs: agentgym store rebuild --runs-dir DIR"
        )
    known, decided, damaged = _kept_only_here(database, patience)
    fresh = database.with_name(f"{database.name}.{os.getpid()}.new")
    try:
        with open_for_writing(fresh, patience) as connection:
            reports = [load_into(connection, run_dir) for run_dir in run_dirs]
            _refuse_lost(known - {report.run for report in reports}, runs_dir, database)
            record_gates(connection, decided)
        aside = _moved_aside(database) if damaged else None
        # A write-ahead log left by a crash belongs to the old file and must not be replayed into the new one.
        database.with_name(f"{database.name}.wal").unlink(missing_ok=True)
        fresh.replace(database)
    finally:
        fresh.unlink(missing_ok=True)
    return Rebuilt(runs=tuple(reports), set_aside=aside)


def _moved_aside(database: Path) -> Path:
    for number in count(1):
        target = database.with_name(f"{database.name}.damaged" + ("" if number == 1 else f".{number}"))
        if not target.exists():
            return database.rename(target)
    raise AssertionError("unreachable")


def _refuse_outside(runs_dir: Path, run_dirs: list[Path]) -> None:
    """A link in a folder of runs could make anything on the machine a run."""
    inside = runs_dir.resolve()
    for folder in run_dirs:
        if folder.resolve().parent != inside:
            raise StoreError(
                f"{folder}: expected a folder inside {runs_dir}, got a link out of it", hint="move the run's folder here, or name its own"
            )


def _refuse_lost(runs: set[str], runs_dir: Path, database: Path) -> None:
    """Several folders of runs can share a store; made again from one of them, it would forget the others."""
    if runs:
        named = ", ".join(sorted(runs)[:3]) + (" and more" if len(runs) > 3 else "")
        raise StoreError(
            f"{runs_dir}: expected journals of all runs in {database}, got none of {named}",
            hint="bring their folders here, or move the store away first to leave them out",
        )


def _kept_only_here(database: Path, patience: Patience) -> tuple[set[str], list[GateRow], bool]:
    """The runs in the store that is replaced, decisions of gates, which no journal holds, and whether it is too damaged to tell either.

    Raises StoreBusy where it is held, NotAStore and NewerStore.
    """
    if not database.exists():
        return set(), [], False
    try:
        with open_for_writing(database, patience) as connection:
            return {str(run) for (run,) in rows_of(connection, "select run from runs")}, every_decision(connection), False
    except (StoreBusy, NotAStore, NewerStore):
        raise
    except StoreError:
        return set(), [], True
