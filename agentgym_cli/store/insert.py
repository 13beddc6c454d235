"""Put Arrow batches into tables: new keys are added, equal rows are left alone, different rows under a key are refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentgym_cli.errors import StoreError
from agentgym_cli.store.batches import arrow_table
from agentgym_cli.store.db import Connection, first_row
from agentgym_cli.store.records import SegmentRecord
from agentgym_cli.store.tables import Table, columns_of

_INCOMING = "incoming"


def insert_rows(connection: Connection, table: Table, rows: Sequence[object]) -> int:
    """Insert rows of one table, distinct by key; returns how many were new.

    Raises:
        StoreError: naming the key, when the store has a different row under it.
    """
    if not rows:
        return 0
    connection.register(_INCOMING, arrow_table(table, rows))
    try:
        _refuse_conflict(connection, table)
        return _insert_new(connection, table)
    finally:
        connection.unregister(_INCOMING)


def _refuse_conflict(connection: Connection, table: Table) -> None:
    columns = [name for name in columns_of(table) if name not in table.key]
    differ = " or ".join(f"i.{name} is distinct from t.{name}" for name in columns) or "false"
    keys = ", ".join(f"i.{name}" for name in table.key)
    found = first_row(
        connection,
        f"select {keys} from {_INCOMING} i join {table.name} t using ({', '.join(table.key)}) where {differ} limit 1",
    )
    if found is not None:
        raise conflict(table.name, dict(zip(table.key, found, strict=True)))


def conflict(table: str, key: dict[str, object]) -> StoreError:
    """The refusal of a different record under a key that is taken."""
    named = ", ".join(f"{name} {value!r}" for name, value in key.items())
    return StoreError(
        f"table {table}: a different record is already stored under {named}",
        hint="two runs share a name, or a journal was edited; agentgym store rebuild shows which after one of them is moved away",
    )


def refuse_unscheduled(connection: Connection, table: Table, run: str) -> None:
    """Raises StoreError, naming one, when a run's attempts or outcomes are of episodes that none of its segments scheduled."""
    found = first_row(
        connection,
        f"select t.episode from {table.name} t anti join scheduled s on s.run = t.run and s.episode = t.episode where t.run = ? limit 1",
        [run],
    )
    if found is not None:
        raise StoreError(f"table {table.name}: episode {found[0]!r} of run {run!r} was never scheduled")


def _insert_new(connection: Connection, table: Table) -> int:
    names = ", ".join(columns_of(table))
    same_key = " and ".join(f"t.{name} = i.{name}" for name in table.key)
    found = first_row(
        connection,
        f"insert into {table.name} ({names}) select {names} from {_INCOMING} i where not exists (select 1 from {table.name} t where {same_key})",
    )
    return int(found[0]) if found else 0


def insert_segments(connection: Connection, records: Sequence[SegmentRecord]) -> int:
    """Insert segments, or fill in their end; returns how many were new. Raises StoreError for anything else that differs."""
    new = 0
    for record in records:
        stored = _stored_segment(connection, record)
        if stored is None:
            new += insert_segment(connection, record)
            continue
        merged = merge_segment(stored, record)
        if merged != stored:
            connection.execute(
                "update segments set ended = ?, status = ? where run = ? and segment = ?",
                [merged.ended, merged.status, merged.run, merged.segment],
            )
    return new


def insert_segment(connection: Connection, record: SegmentRecord) -> int:
    """Insert one new segment; returns 1."""
    connection.execute(
        "insert into segments (run, segment, resumed_from_step, started, ended, status, drift) values (?, ?, ?, ?, ?, ?, ?)",
        [record.run, record.segment, record.resumed_from_step, record.started, record.ended, record.status, list(record.drift)],
    )
    return 1


def _stored_segment(connection: Connection, record: SegmentRecord) -> SegmentRecord | None:
    row = first_row(
        connection,
        "select resumed_from_step, started, ended, status, drift from segments where run = ? and segment = ?",
        [record.run, record.segment],
    )
    if row is None:
        return None
    return SegmentRecord(
        run=record.run, segment=record.segment, resumed_from_step=row[0], started=row[1], ended=row[2], status=row[3], drift=tuple(row[4])
    )


def merge_segment(stored: SegmentRecord, record: SegmentRecord) -> SegmentRecord:
    """The stored segment with its end filled in; a start that is sent again changes nothing. Raises StoreError for a contradiction."""
    merged = replace(stored, ended=stored.ended or record.ended, status=stored.status or record.status)
    said = replace(record, ended=record.ended or merged.ended, status=record.status or merged.status)
    if merged != said:
        raise conflict("segments", {"run": record.run, "segment": record.segment})
    return merged
