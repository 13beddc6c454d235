"""Journal lines in their own form go into tables without a Python object for each; whatever is in another form is handed back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from agentgym_cli.store import own_form
from agentgym_cli.store.batches import lines_table
from agentgym_cli.store.db import Connection, first_row
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, ScheduledRecord
from agentgym_cli.store.tables import ATTEMPTS, OUTCOMES, SCHEDULED, TOKEN_COLUMNS, TURNS, Table, columns_of

_KINDS: tuple[tuple[type, Table], ...] = ((ScheduledRecord, SCHEDULED), (AttemptRecord, ATTEMPTS), (OutcomeRecord, OUTCOMES))
BULK = tuple(table for _, table in _KINDS)
"""Tables whose rows can be loaded in bulk; turns come with their attempts."""
_LINES, _PARSED = "journal_lines", "parsed_attempts"
_NEWLINE = 10


class Unsure(Exception):
    """Rows that only a careful load can tell right from wrong: a key that came twice, or a value that does not fit."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """A block of lines by their form."""

    data: bytes
    ends: npt.NDArray[np.int64]
    """Offset of each line's newline."""
    kinds: npt.NDArray[np.uint8]
    """Place in the kinds that are loaded in bulk, from 1; 0 for a line that is decoded by itself."""

    def others(self) -> Iterator[tuple[int, bytes]]:
        """Number in the block, from 1, and text with newline, of each line that is decoded by itself."""
        for place in np.flatnonzero(self.kinds == 0):
            begin = int(self.ends[place - 1]) + 1 if place else 0
            yield int(place) + 1, self.data[begin : int(self.ends[place]) + 1]

    def has(self, record: type) -> bool:
        """True when lines of a kind of record are loaded in bulk."""
        return any(record is kind and bool((self.kinds == place).any()) for place, (kind, _) in enumerate(_KINDS, start=1))


def one_by_one(data: bytes) -> Sorted:
    """Whole lines that are all to be decoded by themselves."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE).astype(np.int64)
    return Sorted(data, ends, np.zeros(len(ends), np.uint8))


def sort_lines(connection: Connection, data: bytes, run: str, segment: int) -> Sorted:
    """Sort whole lines by their form: own form of this run and segment, or anything else."""
    plain = one_by_one(data)
    if not _is_text(data):
        return plain
    cases = " ".join(
        f"when starts_with(line, $prefix{place}) then (case when regexp_full_match(line, $pattern{place}) then {place} else 0 end)"
        for place in range(1, len(_KINDS) + 1)
    )
    given = {f"prefix{place}": own_form.prefix(kind) for place, (kind, _) in enumerate(_KINDS, start=1)}
    given |= {f"pattern{place}": own_form.pattern(kind, run=run, segment=segment) for place, (kind, _) in enumerate(_KINDS, start=1)}
    connection.register(_LINES, lines_table(data, plain.ends))
    try:
        found = connection.execute(f"select (case {cases} else 0 end)::utinyint as kind from {_LINES}", given).fetchnumpy()["kind"]
    finally:
        connection.unregister(_LINES)
    return replace(plain, kinds=np.asarray(found, dtype=np.uint8))


def _is_text(data: bytes) -> bool:
    """DuckDB believes that its text is UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def append(connection: Connection, lines: Sorted) -> dict[str, int]:
    """Append the lines in their own form to their tables, unchecked for keys; returns how many rows by table. Raises duckdb's errors."""
    added: dict[str, int] = {}
    with _registered(connection, lines):
        for place, (kind, table) in enumerate(_KINDS, start=1):
            if not lines.has(kind):
                continue
            parsed = f"select unnest(json_transform_strict(line, '{json.dumps(own_form.structure(kind))}')) from {_LINES} where kind = {place}"
            if table is ATTEMPTS:
                added |= _append_attempts(connection, parsed)
            else:
                added[table.name] = _insert(connection, table, list(columns_of(table)), f"({parsed})")
    return added


@contextmanager
def _registered(connection: Connection, lines: Sorted) -> Iterator[None]:
    # After an error the transaction is void, and with it what was registered in it.
    connection.register(_LINES, lines_table(lines.data, lines.ends, kind=lines.kinds))
    yield
    connection.unregister(_LINES)


def _append_attempts(connection: Connection, parsed: str) -> dict[str, int]:
    connection.execute(f"create or replace temp table {_PARSED} as {parsed}")
    columns = [f"tokens.{name} as {name}" if name in TOKEN_COLUMNS else name for name in columns_of(ATTEMPTS)]
    added = {ATTEMPTS.name: _insert(connection, ATTEMPTS, columns, _PARSED)}
    keys = ", ".join(TURNS.parent)
    turns = f"(select {keys}, unnest(turns, recursive := true) from {_PARSED} where len(turns) > 0)"
    added[TURNS.name] = _insert(connection, TURNS, list(columns_of(TURNS)), turns)
    repeated = first_row(connection, f"select 1 from {_PARSED} where len(list_distinct([t.turn for t in turns])) < len(turns) limit 1")
    connection.execute(f"drop table {_PARSED}")
    if repeated is not None:
        raise Unsure
    return added


def _insert(connection: Connection, table: Table, columns: list[str], source: str) -> int:
    found = first_row(connection, f"insert into {table.name} ({', '.join(columns_of(table))}) select {', '.join(columns)} from {source}")
    return int(found[0]) if found else 0


def refuse_repeated(connection: Connection, table: Table, run: str) -> None:
    """Equal hashes are no proof of equal keys, but as many hashes as rows are proof of different ones. Raises Unsure."""
    found = first_row(connection, f"select count(*) = count(distinct hash({', '.join(table.key[1:])})) from {table.name} where run = ?", [run])
    if found is not None and not found[0]:
        raise Unsure
