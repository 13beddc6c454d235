"""Records as Arrow tables, one per table of the store; the owner of pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from types import NoneType
from typing import get_args

import pyarrow as pa

from agentgym_cli.store.records import AttemptRecord
from agentgym_cli.store.tables import ATTEMPTS, TURNS, Table, columns_of

_TYPES: dict[object, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_TOKEN_COLUMNS = ("token_ids", "action_mask", "logprobs")


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
    """Rows of one table (records of its kind; attempts for ``turns``, whose turns are unfolded) as one Arrow table."""
    if table is TURNS:
        return _turns([row for row in rows if isinstance(row, AttemptRecord)])
    schema = arrow_schema(table)
    columns = [pa.array([get(row) for row in rows], field.type) for field, get in zip(schema, _getters(table, schema), strict=True)]
    return pa.table(columns, schema=schema)


def _getters(table: Table, schema: pa.Schema) -> list[Callable[[object], object]]:
    if table is not ATTEMPTS:
        return [attrgetter(name) for name in schema.names]
    return [_token_getter(name) if name in _TOKEN_COLUMNS else attrgetter(name) for name in schema.names]


def _token_getter(name: str) -> Callable[[object], object]:
    def get(attempt: object) -> object:
        tokens = getattr(attempt, "tokens")  # noqa: B009
        return None if tokens is None else getattr(tokens, name)

    return get


def _turns(attempts: Sequence[AttemptRecord]) -> pa.Table:
    schema = arrow_schema(TURNS)
    pairs = [(attempt, turn) for attempt in attempts for turn in attempt.turns]
    columns = []
    for field in schema:
        get = attrgetter(field.name)
        source = 0 if field.name in TURNS.parent else 1
        columns.append(pa.array([get(pair[source]) for pair in pairs], field.type))
    return pa.table(columns, schema=schema)
