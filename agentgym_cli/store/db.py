"""The only owner of DuckDB: connect with bounded patience, run one transaction, turn its errors into ours."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from agentgym_cli.errors import StoreError

Connection = duckdb.DuckDBPyConnection

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "python_enable_replacements": "false",
    # Loads and reports run beside training: they take one core, not all, and not its memory; what does not fit goes to disk.
    "threads": "1",
    "memory_limit": "2GB",
}
_HOLDER = re.compile(r"held in (?P<program>.+?) \(PID (?P<pid>\d+)\)")
_LOCKED = ("Could not set lock", "different configuration than existing connections")


class StoreBusy(StoreError):
    """Another process holds the store; the message names it where DuckDB does."""


class NotAStore(StoreError):
    """The file is something else, which must be left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for a store that another process holds."""

    seconds: float = 5.0
    """In total; 0 tries once."""
    pause: float = 0.05
    """Seconds before the second try; doubled after each, up to half a second."""
    sleep: Callable[[float], None] = time.sleep


def connect(database: Path, *, read_only: bool, patience: Patience) -> Connection:
    """Open a store file.

    Raises:
        StoreBusy: another process held it all the time.
        StoreError: there is no such file, it is no DuckDB file, or it cannot be read.
    """
    waited, pause = 0.0, patience.pause
    while True:
        try:
            return duckdb.connect(str(database), read_only=read_only, config=_CONFIG)
        except duckdb.Error as err:
            if not any(text in str(err) for text in _LOCKED):
                raise _unusable(database, err) from err
            if waited + pause > patience.seconds:
                raise _busy(database, err) from err
        patience.sleep(pause)
        waited, pause = waited + pause, min(2 * pause, 0.5)


def _busy(database: Path, err: duckdb.Error) -> StoreBusy:
    holder = _HOLDER.search(str(err))
    who = f"process {holder['pid']} ({Path(holder['program']).name})" if holder else "another connection"
    return StoreBusy(f"{database}: held by {who}", hint="try again when it is done; journals are complete without the store")


def _unusable(database: Path, err: duckdb.Error) -> StoreError:
    first = str(err).splitlines()[0]
    if database.is_file() and not _is_duckdb(database):
        return NotAStore(f"{database}: expected a store, got a file of another kind", hint="name another file: --store FILE")
    return StoreError(f"{database}: cannot open the store: {first}", hint="agentgym store rebuild makes it again from the journals")


def _is_duckdb(file: Path) -> bool:
    """True for an empty file and for one that is marked as DuckDB's, whatever became of the rest; where it cannot be read, that is the trouble."""
    try:
        with file.open("rb") as opened:
            head = opened.read(12)
    except OSError:
        return True
    return head == b"" or head[8:] == b"DUCK"


def rows_of(connection: Connection, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query, so that no unfinished result blocks the connection."""
    return connection.execute(sql, list(parameters)).fetchall()


def first_row(connection: Connection, sql: str, parameters: Sequence[object] = ()) -> tuple[Any, ...] | None:
    """The first row of a query that has few, None when it has none."""
    return next(iter(rows_of(connection, sql, parameters)), None)


@contextmanager
def converted_errors(database: Path | str) -> Iterator[None]:
    """Turn what DuckDB raises inside into StoreError."""
    try:
        yield
    except duckdb.Error as err:
        raise StoreError(
            f"{database}: {str(err).splitlines()[0]}",
            hint="check the disk; agentgym store rebuild makes the store again from the journals",
        ) from err


@contextmanager
def refused_rows(instead: type[Exception]) -> Iterator[None]:
    """Turn what DuckDB says of values that do not fit into another exception."""
    try:
        yield
    except (duckdb.ConstraintException, duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException) as err:
        raise instead(str(err)) from err


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Commit at the end, roll back on any exception."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
