"""From journals into a store: in blocks, only what is new, the same record again changing nothing. Knows no report.

Lines in the form that this program writes are appended in bulk and their keys are checked at the end; where that check finds anything, all is
loaded again record by record, which says what is wrong or leaves out what is there already.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.wording import shown
from agentgym_cli.store.bulk import BULK, Sorted, Unsure, append, one_by_one, refuse_repeated, sort_lines
from agentgym_cli.store.db import Connection, Patience, StoreBusy, first_row, refused_rows, transaction
from agentgym_cli.store.insert import conflict, insert_rows, insert_segments, refuse_unscheduled
from agentgym_cli.store.journal import decode_line, journal_folder, read_blocks, read_segment, segment_files, torn_line
from agentgym_cli.store.opening import PATIENT, open_for_writing
from agentgym_cli.store.records import AttemptRecord, ImportedAttemptRecord, ImportedRunRecord, Record, RunRecord, SegmentRecord
from agentgym_cli.store.settle import settle
from agentgym_cli.store.tables import ATTEMPTS, BY_RECORD, OUTCOMES, RUNS, SEGMENTS, TABLES, TURNS, Table

__all__ = ["LoadReport", "StoreBusy", "load", "load_into"]

CHUNK_BYTES = 32 * 1024 * 1024
"""Journal bytes held at once, about; a longer line is held whole."""
BULK_BYTES = 256 * 1024
"""A smaller block is decoded line by line, which is quicker then."""
_MARK_BYTES = 4096
_MOVE_AWAY = "no program of ours wrote this journal: move its run's folder out of the folder of runs"
_PLAIN_NAME = re.compile(r"(?!\.{1,2}\Z)[^/\\\x00-\x1f\x7f]{1,255}")
"""A run's name is that of a folder in the folder of runs and can lead nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReport:
    """What one load did."""

    run: str | None
    """None while the journal has no whole line."""
    records: int
    """Journal lines read now."""
    added: Mapping[str, int]
    """New rows by table; tables without new rows are left out."""
    torn: int
    """Torn last lines, one at most per segment."""


def load(run_dir: Path, database: Path, patience: Patience = PATIENT) -> LoadReport:
    """Load what a run's journal has gained since the last load. Idempotent.

    Raises:
        StoreBusy: another process holds the store.
        StoreError: a broken line (named file:line), a different record under a key that is taken (named), a record outside its segment
            or schedule, a journal that is not the one loaded before.
    """
    with open_for_writing(database, patience) as connection:
        return load_into(connection, run_dir)


def load_into(connection: Connection, run_dir: Path) -> LoadReport:
    """``load`` into an open store, in one transaction: all of it or nothing."""
    files = segment_files(run_dir)
    if not files:
        raise StoreError(f"{journal_folder(run_dir)}: there is no journal", hint="name the folder of a run, e.g. runs/NAME")
    run = _run_name([path for _, path in files])
    if run is None:
        return LoadReport(run=None, records=0, added={}, torn=sum(torn_line(path, 0) for _, path in files))
    try:
        with transaction(connection), refused_rows(Unsure):
            return _load(connection, run, files, in_bulk=True)
    except Unsure:
        with transaction(connection):
            return _load(connection, run, files, in_bulk=False)


def _run_name(paths: Sequence[Path]) -> str | None:
    """From the first whole line, which is in a later segment when the first was killed before it had one."""
    for path in paths:
        for line in read_segment(path):
            if not isinstance(line.record, RunRecord | ImportedRunRecord):
                raise StoreError(f"{path}:1: expected the run's own record, got {type(line.record).__name__}", _MOVE_AWAY)
            if not _PLAIN_NAME.fullmatch(line.record.run):
                raise StoreError(f"{path}:1: expected the name of a folder as the run's name, got {shown(line.record.run)}", _MOVE_AWAY)
            return line.record.run
    return None


def _load(connection: Connection, run: str, files: Sequence[tuple[int, Path]], *, in_bulk: bool) -> LoadReport:
    added: Counter[str] = Counter()
    records = torn = 0
    for segment, path in files:
        start = end = _start(connection, run, segment, path)
        for data in read_blocks(path, start, CHUNK_BYTES):
            block = _block(connection, data, run, segment, in_bulk=in_bulk)
            added.update(_load_block(connection, block, path, run, segment, end))
            records, end = records + len(block.ends), end + len(data)
        if end > start:
            _remember(connection, run, segment, path, end)
        torn += torn_line(path, end)
    _finish(connection, run, added, in_bulk=in_bulk)
    return LoadReport(run=run, records=records, added={name: count for name, count in added.items() if count}, torn=torn)


def _block(connection: Connection, data: bytes, run: str, segment: int, *, in_bulk: bool) -> Sorted:
    return sort_lines(connection, data, run, segment) if in_bulk and len(data) >= BULK_BYTES else one_by_one(data)


def _finish(connection: Connection, run: str, added: Mapping[str, int], *, in_bulk: bool) -> None:
    for table in BULK if in_bulk else ():
        if added.get(table.name):
            refuse_repeated(connection, table, run)
    for table in (ATTEMPTS, OUTCOMES):
        if added.get(table.name):
            refuse_unscheduled(connection, table, run)
    if any(count for name, count in added.items() if name != RUNS.name):
        settle(connection, run)


def _start(connection: Connection, run: str, segment: int, path: Path) -> int:
    """Byte up to which the file is loaded already."""
    row = first_row(connection, "select loaded, mark from journals where run = ? and segment = ?", [run, segment])
    if row is None:
        return 0
    loaded, mark = int(row[0]), str(row[1])
    if path.stat().st_size < loaded or _mark(path, loaded) != mark:
        raise StoreError(
            f"{path}: expected the journal that was loaded before, got another one for run {run!r}",
            hint="agentgym store rebuild makes the store again from the journals",
        )
    return loaded


def _remember(connection: Connection, run: str, segment: int, path: Path, end: int) -> None:
    connection.execute("insert or replace into journals (run, segment, loaded, mark) values (?, ?, ?, ?)", [run, segment, end, _mark(path, end)])


def _mark(path: Path, end: int) -> str:
    """Recognises a file by the first and the last bytes before ``end``, so that a replaced journal is noticed without reading all of it."""
    with path.open("rb") as file:
        head = file.read(min(end, _MARK_BYTES))
        file.seek(max(0, end - _MARK_BYTES))
        return sha256(head + file.read(min(end, _MARK_BYTES))).hexdigest()


@dataclass(slots=True)
class _Decoded:
    """Records of a block that were decoded one by one, distinct by key."""

    path: Path
    run: str
    segment: int
    rows: dict[Table, dict[tuple[object, ...], Record]] = field(default_factory=dict)
    segments: list[SegmentRecord] = field(default_factory=list)

    def add(self, record: Record) -> None:
        segment = getattr(record, "segment", self.segment)
        if record.run != self.run or segment != self.segment:
            raise StoreError(f"{self.path}: expected records of run {self.run!r}, segment {self.segment}, got {record.run!r}, segment {segment}")
        if isinstance(record, SegmentRecord):
            self.segments.append(record)
            return
        table = BY_RECORD[type(record)]
        key = tuple(attrgetter(*table.key)(record)) if len(table.key) > 1 else (record.run,)
        if self.rows.setdefault(table, {}).setdefault(key, record) != record:
            raise StoreError(f"{self.path}: two different records under the key {key} of table {table.name}")


def _load_block(connection: Connection, block: Sorted, path: Path, run: str, segment: int, start: int) -> Mapping[str, int]:
    """Load whole lines that begin at byte ``start`` of a segment's file; returns new rows by table."""
    decoded = _Decoded(path, run, segment)
    for number, line in block.others():
        decoded.add(decode_line(path, number, start, line))
    added: Counter[str] = Counter({SEGMENTS.name: insert_segments(connection, decoded.segments)})
    _check_segment(connection, decoded, any_bulk=bool(block.kinds.any()))
    if block.kinds.any():
        added.update(append(connection, block))
    for table in TABLES:
        if table in decoded.rows:
            added.update(_insert(connection, table, decoded.rows[table].values()))
    return added


def _insert(connection: Connection, table: Table, records: Iterable[Record]) -> Mapping[str, int]:
    rows = list(records)
    added = {table.name: insert_rows(connection, table, rows)}
    if table is ATTEMPTS:
        with_turns = [row for row in rows if isinstance(row, AttemptRecord | ImportedAttemptRecord) and row.turns]
        _refuse_repeated_turns(with_turns)
        added[TURNS.name] = insert_rows(connection, TURNS, with_turns)
    return added


def _refuse_repeated_turns(attempts: Sequence[AttemptRecord | ImportedAttemptRecord]) -> None:
    for attempt in attempts:
        repeated = [turn for turn, times in Counter(turn.turn for turn in attempt.turns).items() if times > 1]
        if repeated:
            raise conflict(TURNS.name, {"run": attempt.run, "episode": attempt.episode, "attempt": attempt.attempt, "turn": repeated[0]})


def _check_segment(connection: Connection, decoded: _Decoded, *, any_bulk: bool) -> None:
    """Without its segment's record nobody could say whether a record is superseded."""
    only_run = not any_bulk and all(table.key == ("run",) for table in decoded.rows)
    known = first_row(connection, "select 1 from segments where run = ? and segment = ?", [decoded.run, decoded.segment])
    if not only_run and known is None:
        raise StoreError(f"{decoded.path}: expected the record of segment {decoded.segment} before other records, got none")
