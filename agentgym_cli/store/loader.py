"""From journals into a store: in batches, only what is new, the same record again changing nothing. Knows no report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import Connection, Patience, StoreBusy, first_row, transaction
from agentgym_cli.store.insert import insert_rows, insert_segments
from agentgym_cli.store.journal import Line, journal_folder, read_segment, segment_files, torn_line
from agentgym_cli.store.opening import PATIENT, open_for_writing
from agentgym_cli.store.records import AttemptRecord, Record, RunRecord, SegmentRecord
from agentgym_cli.store.tables import ATTEMPTS, BY_RECORD, SEGMENTS, TABLES, TURNS, Table

__all__ = ["LoadReport", "StoreBusy", "load", "load_into"]

CHUNK_BYTES = 16 * 1024 * 1024
"""Journal bytes in one transaction, about."""
_MARK_BYTES = 4096


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
    """``load`` into an open store; each chunk is a transaction of its own."""
    files = segment_files(run_dir)
    if not files:
        raise StoreError(f"{journal_folder(run_dir)}: there is no journal", hint="name the folder of a run, e.g. runs/NAME")
    run = _run_name([path for _, path in files])
    if run is None:
        return LoadReport(run=None, records=0, added={}, torn=sum(torn_line(path, 0) for _, path in files))
    added: Counter[str] = Counter()
    records = torn = 0
    for segment, path in files:
        end = _start(connection, run, segment, path)
        for chunk in _chunks(path, run, segment, end):
            added.update(_load_chunk(connection, chunk))
            records, end = records + chunk.records, chunk.end
        torn += torn_line(path, end)
    return LoadReport(run=run, records=records, added={name: count for name, count in added.items() if count}, torn=torn)


def _run_name(paths: Sequence[Path]) -> str | None:
    """From the first whole line, which is in a later segment when the first was killed before it had one."""
    for path in paths:
        for line in read_segment(path):
            if not isinstance(line.record, RunRecord):
                raise StoreError(f"{path}:1: expected the run's own record, got {type(line.record).__name__}")
            return line.record.run
    return None


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


def _mark(path: Path, end: int) -> str:
    """Recognises a file by the first and the last bytes before ``end``, so that a replaced journal is noticed without reading all of it."""
    with path.open("rb") as file:
        head = file.read(min(end, _MARK_BYTES))
        file.seek(max(0, end - _MARK_BYTES))
        return sha256(head + file.read(min(end, _MARK_BYTES))).hexdigest()


@dataclass(slots=True)
class _Chunk:
    path: Path
    run: str
    segment: int
    end: int
    records: int = 0
    rows: dict[Table, dict[tuple[object, ...], Record]] = field(default_factory=dict)
    segments: list[SegmentRecord] = field(default_factory=list)

    def add(self, line: Line) -> None:
        record = line.record
        self.end, self.records = line.end, self.records + 1
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


def _chunks(path: Path, run: str, segment: int, start: int) -> Iterator[_Chunk]:
    chunk, begin = _Chunk(path, run, segment, start), start
    for line in read_segment(path, start):
        chunk.add(line)
        if chunk.end - begin >= CHUNK_BYTES:
            yield chunk
            begin = chunk.end
            chunk = _Chunk(path, run, segment, begin)
    if chunk.records:
        yield chunk


def _load_chunk(connection: Connection, chunk: _Chunk) -> Mapping[str, int]:
    added = {}
    with transaction(connection):
        added[SEGMENTS.name] = insert_segments(connection, chunk.segments)
        _check_segment(connection, chunk)
        for table in TABLES:
            if table in chunk.rows:
                rows = list(chunk.rows[table].values())
                added[table.name] = insert_rows(connection, table, rows)
                if table is ATTEMPTS:
                    added[TURNS.name] = insert_rows(connection, TURNS, [row for row in rows if isinstance(row, AttemptRecord) and row.turns])
        connection.execute(
            "insert or replace into journals (run, segment, loaded, mark) values (?, ?, ?, ?)",
            [chunk.run, chunk.segment, chunk.end, _mark(chunk.path, chunk.end)],
        )
    return added


def _check_segment(connection: Connection, chunk: _Chunk) -> None:
    """Without its segment's record nobody could say whether a record is superseded."""
    only_run = all(table.key == ("run",) for table in chunk.rows)
    known = first_row(connection, "select 1 from segments where run = ? and segment = ?", [chunk.run, chunk.segment])
    if not only_run and known is None:
        raise StoreError(f"{chunk.path}: expected the record of segment {chunk.segment} before other records, got none")
