"""Records as Arrow tables, one per table of the store; the owner of pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType
from typing import get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from agentgym_cli.store.db import Connection
from agentgym_cli.store.records import AttemptRecord, ImportedAttemptRecord
from agentgym_cli.store.tables import ATTEMPTS, TOKEN_COLUMNS, TURNS, Table, columns_of

_TYPES: dict[object, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def arrow_type(name: str, hint: object) -> pa.DataType:
    """The Arrow type of a column; seeds are unsigned, optional values are the same type."""
    parts = get_args(hint)
    if NoneType in parts:
        return arrow_type(name, parts[0])
    if parts:
        return pa.list_(arrow_type(name, parts[0]))
    return pa.uint64() if name == "seed" else _TYPES[hint]


def arrow_schema(table: Table) -> pa.Schema:
    """Columns of ``table`` in order."""
    return pa.schema([(name, arrow_type(name, hint)) for name, hint in columns_of(table).items()])


def arrow_table(table: Table, rows: Sequence[object]) -> pa.Table:
    """Rows of one table (records of its kind; attempts for ``turns``, whose turns are unfolded) as one Arrow table.

    Columns that a record of an imported run lacks are null.
    """
    if table is TURNS:
        return _turns([row for row in rows if isinstance(row, AttemptRecord | ImportedAttemptRecord)])
    schema = arrow_schema(table)
    columns = [pa.array([get(row) for row in rows], field.type) for field, get in zip(schema, _getters(table, schema), strict=True)]
    return pa.table(columns, schema=schema)


def _getters(table: Table, schema: pa.Schema) -> list[Callable[[object], object]]:
    return [_token_getter(name) if table is ATTEMPTS and name in TOKEN_COLUMNS else _getter(name) for name in schema.names]


def _getter(name: str) -> Callable[[object], object]:
    return lambda record: getattr(record, name, None)


def _token_getter(name: str) -> Callable[[object], object]:
    def get(attempt: object) -> object:
        tokens = getattr(attempt, "tokens", None)
        return None if tokens is None else getattr(tokens, name)

    return get


def _turns(attempts: Sequence[AttemptRecord | ImportedAttemptRecord]) -> pa.Table:
    schema = arrow_schema(TURNS)
    pairs = [(attempt, turn) for attempt in attempts for turn in attempt.turns]
    columns = []
    for field in schema:
        get = _getter(field.name)
        source = 0 if field.name in TURNS.parent else 1
        columns.append(pa.array([get(pair[source]) for pair in pairs], field.type))
    return pa.table(columns, schema=schema)


def lines_table(data: bytes, ends: npt.NDArray[np.int64], kind: npt.NDArray[np.uint8] | None = None) -> pa.Table:
    """Lines of UTF-8 text, shape (N,), as column ``line`` without a copy, each with its newline; and ``kind`` beside it.

    Args:
        ends: offset of each line's newline in ``data``, ascending, shape (N,).
        kind: shape (N,), None for no such column.
    """
    offsets = np.concatenate((np.zeros(1, np.int64), ends + 1))
    columns = {"line": pa.Array.from_buffers(pa.large_string(), len(ends), [None, pa.py_buffer(offsets.data), pa.py_buffer(data)])}
    return pa.table(columns if kind is None else columns | {"kind": pa.array(kind, pa.uint8())})


def batches_of(connection: Connection, sql: str, rows: int) -> pa.RecordBatchReader:
    """The result of a query in batches of about ``rows`` rows, one in memory at a time."""
    reader: pa.RecordBatchReader = connection.sql(sql).to_arrow_reader(rows)
    return reader


def write_parquet(reader: pa.RecordBatchReader, path: Path) -> int:
    """Write batches as they come to one zstd-compressed Parquet file; returns the rows. Raises OSError."""
    rows = 0
    with ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows
