"""Which record goes to which table, under which key, with which columns. Knows no SQL and no DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from types import MappingProxyType
from typing import get_type_hints

from agentgym_cli.store import records

INSIDE = {"turns", "tokens"}
"""Fields of an attempt that are no columns: rows of another table, or several columns."""
TOKEN_COLUMNS = tuple(field.name for field in fields(records.TokensRecord))
"""The columns of attempts that ``tokens`` is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of the store."""

    name: str
    key: tuple[str, ...]
    record: type
    parent: tuple[str, ...] = ()
    """Leading columns that come from the enclosing record."""
    imported: type | None = None
    """Record of imported runs, with fewer columns: the others are null in its rows."""


RUNS = Table(name="runs", key=("run",), record=records.RunRecord, imported=records.ImportedRunRecord)
SEGMENTS = Table(name="segments", key=("run", "segment"), record=records.SegmentRecord)
SCHEDULED = Table(name="scheduled", key=("run", "segment", "episode"), record=records.ScheduledRecord, imported=records.ImportedScheduledRecord)
ATTEMPTS = Table(name="attempts", key=("run", "segment", "episode", "attempt"), record=records.AttemptRecord, imported=records.ImportedAttemptRecord)
TURNS = Table(
    name="turns",
    key=("run", "segment", "episode", "attempt", "turn"),
    record=records.TurnRecord,
    parent=("run", "segment", "episode", "attempt"),
    imported=records.ImportedTurnRecord,
)
OUTCOMES = Table(name="outcomes", key=("run", "segment", "episode"), record=records.OutcomeRecord)
METRICS = Table(name="metrics", key=("run", "segment", "phase", "step", "name"), record=records.MetricRecord)
PROBES = Table(name="probes", key=("run", "segment", "url", "name"), record=records.ProbeRecord)
CHECKPOINTS = Table(name="checkpoints", key=("run", "segment", "step"), record=records.CheckpointRecord)
SERVERS = Table(name="servers", key=("run", "segment", "number"), record=records.ServerRecord)

TABLES = (RUNS, SEGMENTS, SCHEDULED, ATTEMPTS, TURNS, OUTCOMES, METRICS, PROBES, CHECKPOINTS, SERVERS)
BY_RECORD = {table.record: table for table in TABLES} | {table.imported: table for table in TABLES if table.imported is not None}


@cache
def columns_of(table: Table) -> Mapping[str, object]:
    """Column names and the type hints of their values, in order."""
    hints = get_type_hints(table.record)
    parents = get_type_hints(records.AttemptRecord)
    columns: dict[str, object] = {name: parents[name] for name in table.parent}
    columns |= {field.name: hints[field.name] for field in fields(table.record) if field.name not in INSIDE}
    if table.imported is not None:
        more = get_type_hints(table.imported)
        columns |= {name: more[name] | None for name in more if name not in columns and name not in INSIDE}
    if table is ATTEMPTS:
        columns |= get_type_hints(records.TokensRecord)
    return MappingProxyType(columns)
