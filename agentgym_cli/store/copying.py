"""A private copy of a store file: the store is held while it is copied, and a copy is looked through before anybody believes it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import Connection, Patience, connect, converted_errors, rows_of
from agentgym_cli.store.opening import PATIENT, open_for_reading

_MEMORY = "set memory_limit = '500MB'"
"""Of each copy: while one is looked through, pages read the one before."""
_TABLES = "select table_name from duckdb_tables() where not internal order by table_name"


def copy_store(database: Path, path: Path, patience: Patience) -> str:
    """Copy a store with its log to ``path`` while no writer can have it; returns its stamp. Raises StoreBusy and StoreError."""
    if not database.is_file():
        raise StoreError(f"{database}: there is no store", hint="agentgym store rebuild makes it from the journals of a runs folder")
    held = connect(database, read_only=True, patience=patience)
    try:
        stamp = stamp_of(database)
        # The log first: closing a file gives up this process's locks on it, and the database's is the one that counts.
        with suppress(FileNotFoundError):
            shutil.copyfile(_log(database), _log(path))
        shutil.copyfile(database, path)
    except OSError as err:
        raise StoreError(f"{database}: cannot copy the store: {err.strerror or err}", hint="free some space where temporary files are") from err
    finally:
        held.close()
    return stamp


def open_copy(path: Path, database: Path) -> Connection:
    """The copy at ``path`` of ``database``, brought up to date and open for reading.

    Its file loses its name, so that it ends with this process, however that ends.

    Raises:
        StoreError: it cannot be opened.
    """
    with named(path, database):
        with open_for_reading(path):
            pass
        connection = connect(path, read_only=True, patience=PATIENT)
        connection.execute(_MEMORY)
    remove(path)
    return connection


def look_through(connection: Connection, path: Path, database: Path) -> None:
    """Read every value of a copy once, so that blocks that are damaged or missing are found. Raises StoreError."""
    with named(path, database), converted_errors(database):
        for (table,) in rows_of(connection, _TABLES):
            rows_of(connection, f'select max(hash(t)) from "{table}" t')


@contextmanager
def named(path: Path, database: Path) -> Iterator[None]:
    """Have what is said of the copy at ``path`` name the store that it is a copy of."""
    try:
        yield
    except StoreError as err:
        raise type(err)(err.message.replace(str(path), str(database)), err.hint) from err


def remove(path: Path) -> None:
    """Take away the file of a copy and whatever lies beside it under its name."""
    for each in path.parent.glob(f"{path.name}*"):
        shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)


def stamp_of(database: Path) -> str:
    """Changes whenever the store's files do."""
    parts = []
    for path in (database, _log(database)):
        try:
            known = path.stat()
        except OSError:
            continue
        parts.append(f"{known.st_ino:x}-{known.st_size:x}-{known.st_mtime_ns:x}")
    return ".".join(parts)


def _log(database: Path) -> Path:
    return database.with_name(f"{database.name}.wal")
