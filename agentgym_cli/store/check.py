"""Whether a store can be believed: against its journals, against its schedule, and against itself. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.digest import results_digest
from agentgym_cli.store.journal import journal_folder, segment_files, whole_bytes
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.opening import open_for_writing
from agentgym_cli.store.tables import ATTEMPTS, METRICS, OUTCOMES, SCHEDULED, TABLES, TURNS

_VIEWS = "select view_name, sql from duckdb_views() where not internal"
_UNINDEXED = (SCHEDULED, ATTEMPTS, TURNS, OUTCOMES, METRICS)
_NAMED = 3
"""Most rows that one fault names."""

_COUNTS = """
select
    count(*) as scheduled, count(*) filter (outcome = 'success') as success, count(*) filter (outcome = 'failure') as failure,
    count(*) filter (outcome = 'infra_error') as infra_error, count(*) filter (outcome = 'missing') as missing
from episodes_final where run = $run
"""
_SCHEDULE = "select (select count(*) from scheduled_final where run = $run), (select count(*) from episodes_final where run = $run)"
_STALE = """
select episode from ((from episodes_final where run = $run) except all (from episodes_now where run = $run)) limit 3
"""
_LOST = """
select episode from ((from episodes_now where run = $run) except all (from episodes_final where run = $run)) limit 3
"""
_STRAYS = """
select t.episode from {table} t anti join scheduled s on s.run = t.run and s.episode = t.episode where t.run = $run limit 3
"""
_SUPERSEDED_SCHEDULE = "select kind || ' of ' || episode from unscheduled where run = $run order by all limit 3"
_WITHOUT_ATTEMPT = """
select o.episode from outcomes_final o anti join attempts_final a on a.run = o.run and a.episode = o.episode and a.attempt = o.attempt
where o.run = $run and o.attempts > 0 limit 3
"""
_OTHER_OUTCOME = """
select o.episode from outcomes_final o join attempts_final a on a.run = o.run and a.episode = o.episode and a.attempt = o.attempt
where o.run = $run and a.outcome is distinct from o.outcome limit 3
"""
_OTHER_COUNT = """
select o.episode from outcomes_final o
left join (select episode, count(*) as n from attempts_final where run = $run group by episode) a on a.episode = o.episode
where o.run = $run and o.attempts <> coalesce(a.n, 0) limit 3
"""
_OTHER_FIRST = """
select o.episode from outcomes_final o join attempts_final a on a.run = o.run and a.episode = o.episode and a.attempt = 1
where o.run = $run and a.outcome is distinct from o.first_outcome limit 3
"""
_TURNS = """
select a.episode from attempts a
join (select segment, episode, attempt, count(*) as n, max(turn) as last from turns where run = $run group by all) t
using (segment, episode, attempt)
where a.run = $run and (t.n <> a.turns_count or t.last <> t.n) limit 3
"""
_ORPHANS = """
select t.episode from turns t anti join attempts a using (run, segment, episode, attempt) where run = $run limit 3
"""
_SUPERSEDED = "select coalesce(sum(records), 0)::bigint from superseded where run = $run"
_QUESTIONS: Mapping[str, str] = {
    "attempts of episodes that were never scheduled": _STRAYS.format(table="attempts"),
    "outcomes of episodes that were never scheduled": _STRAYS.format(table="outcomes"),
    "records that count although their schedule is superseded": _SUPERSEDED_SCHEDULE,
    "outcomes whose attempt is not there": _WITHOUT_ATTEMPT,
    "outcomes that differ from their attempt's": _OTHER_OUTCOME,
    "outcomes of another number of attempts than there are": _OTHER_COUNT,
    "outcomes that tell of another first attempt": _OTHER_FIRST,
    "attempts whose turns are not all there": _TURNS,
    "turns whose attempt is not there": _ORPHANS,
    "rows of episodes_final that the records do not say": _STALE,
    "rows that episodes_final lacks": _LOST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCheck:
    """What was found of one run."""

    run: str
    scheduled: int
    success: int
    failure: int
    infra_error: int
    missing: int
    superseded: int
    """Records of every kind that a later segment superseded; no fault."""
    digest: str
    """Of the run's results."""
    faults: tuple[str, ...]
    """Sentences; empty when the run can be believed."""


def check_store(connection: Connection, runs_dir: Path) -> tuple[RunCheck, ...]:
    """Check every run of an open store, and every journal under ``runs_dir`` that it lacks."""
    runs = [str(row[0]) for row in rows_of(connection, "select run from runs order by run")]
    folders = {folder.name for folder in runs_dir.glob("*") if journal_folder(folder).is_dir()}
    checks = [_check_run(connection, run, runs_dir / run, has_journal=run in folders) for run in runs]
    return (*checks, *(_absent(name, runs_dir / name) for name in sorted(folders - set(runs)) if any(_sizes(runs_dir / name).values())))


def _absent(name: str, folder: Path) -> RunCheck:
    fault = f"{folder}: its journal is not in the store"
    return RunCheck(run=name, scheduled=0, success=0, failure=0, infra_error=0, missing=0, superseded=0, digest="", faults=(fault,))


def _check_run(connection: Connection, run: str, folder: Path, *, has_journal: bool) -> RunCheck:
    named = {"run": run}
    scheduled, success, failure, infra_error, missing = connection.execute(_COUNTS, named).fetchall()[0]
    digest = results_digest(connection, run)
    faults = [*_inside(connection, run)]
    faults += _against_journal(connection, run, folder) if has_journal else [f"{folder}: expected the run's journal, got none"]
    return RunCheck(
        run=run,
        scheduled=scheduled,
        success=success,
        failure=failure,
        infra_error=infra_error,
        missing=missing,
        superseded=connection.execute(_SUPERSEDED, named).fetchall()[0][0],
        digest=digest.whole,
        faults=tuple(faults),
    )


def _inside(connection: Connection, run: str) -> Iterator[str]:
    """Faults that the store shows by itself."""
    for table in _UNINDEXED:
        key = ", ".join(table.key)
        found = rows_of(connection, f"select {key} from {table.name} where run = ? group by all having count(*) > 1 limit {_NAMED}", [run])
        if found:
            yield f"table {table.name}: several rows under one key: {_named(' '.join(map(str, row[1:])) for row in found)}"
    in_schedule, counted = connection.execute(_SCHEDULE, {"run": run}).fetchall()[0]
    if in_schedule != counted:
        yield f"expected one outcome for each of {in_schedule} scheduled episodes, got {counted}"
    for what, sql in _QUESTIONS.items():
        rows = connection.execute(sql, {"run": run}).fetchall()
        if rows:
            yield f"{what}: {_named(str(row[0]) for row in rows)}"


def _named(rows: Iterator[str]) -> str:
    return ", ".join(text[:100] for text in rows)


def _against_journal(connection: Connection, run: str, folder: Path) -> Iterator[str]:
    """Faults that the journal shows: bytes that are not loaded, and rows that a fresh load would have otherwise."""
    loaded = {int(segment): int(end) for segment, end in rows_of(connection, "select segment, loaded from journals where run = ?", [run])}
    sizes = _sizes(folder)
    behind = [(segment, size - loaded.get(segment, 0)) for segment, size in sizes.items() if size != loaded.get(segment, 0)]
    for segment, count in behind:
        more = f"{count} bytes of whole lines that are not in the store" if count > 0 else f"{-count} bytes fewer than were loaded"
        yield f"{journal_folder(folder) / f'{segment:04d}.jsonl'}: {more}"
    yield from (f"segment {segment}: expected its journal file, got none" for segment in sorted(loaded.keys() - sizes.keys()))
    if not behind:
        yield from _other_rows(connection, run, folder)


def _sizes(folder: Path) -> dict[int, int]:
    return {segment: whole_bytes(path) for segment, path in segment_files(folder)}


def _other_rows(connection: Connection, run: str, folder: Path) -> Iterator[str]:
    with TemporaryDirectory(prefix="agentgym-check-") as scratch:
        try:
            with open_for_writing(Path(scratch) / "again.duckdb") as again:
                load_into(again, folder)
                fresh, views = _contents(again, run), rows_of(again, _VIEWS)
        except StoreError as err:
            yield f"its journal cannot be loaded: {err}"
            return
    differ = [name for name, content in _contents(connection, run).items() if content != fresh[name]]
    if differ:
        yield f"the store has other {', '.join(differ)} than the journal"
    edited = sorted({str(name) for name, _ in set(views) ^ set(rows_of(connection, _VIEWS))})
    if edited:
        yield f"views that are not as they were made: {_named(iter(edited[:_NAMED]))}"


def _contents(connection: Connection, run: str) -> dict[str, tuple[object, ...]]:
    """For each table that comes from journals the number of a run's rows and a sum of hashes over all their columns, in whatever order they are."""
    sql = "select count(*), sum(hash(t)::hugeint) from {} t where run = ?"
    return {table.name: rows_of(connection, sql.format(table.name), [run])[0] for table in TABLES}
