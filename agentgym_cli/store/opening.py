"""Open, work, close: how everyone gets at a store, up to date and for a short time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.store.backup import back_up
from agentgym_cli.store.db import Connection, Patience, StoreBusy, connect, converted_errors
from agentgym_cli.store.migrations import MIGRATIONS, migrate, pending

PATIENT = Patience()
HURRIED = Patience(seconds=0.2)
"""For a load between two steps of a live run, which can as well happen later."""


@contextmanager
def open_for_writing(database: Path, patience: Patience = PATIENT) -> Iterator[Connection]:
    """A store, made where there is none and brought up to date, held for the time of the block.

    A store of an older version is copied beside itself before it is changed. Raises StoreBusy and StoreError.
    """
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise StoreError(f"{database}: cannot create its folder: {err.strerror or err}") from err
    connection = connect(database, read_only=False, patience=patience)
    try:
        with converted_errors(database):
            older = _older(connection)
            if older is not None:
                # Closing writes what is in the log into the file, which is then all there is to copy.
                connection.close()
                back_up(database, older)
                connection = connect(database, read_only=False, patience=patience)
            migrate(connection)
            yield connection
    finally:
        connection.close()


def refuse_unusable(database: Path) -> None:
    """Make sure that a run's results can go to a store file, which is made later where there is none.

    One that another process holds is taken to be a store: it can be loaded later.

    Raises:
        StoreError: it is no file, no store, or cannot be written.
    """
    if not database.exists():
        folder = next(each for each in database.resolve().parents if each.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise StoreError(f"{database}: expected a place that can be written, got {folder}", "name another file: --store FILE")
        return
    if not database.is_file():
        got = "a folder" if database.is_dir() else "something else"
        raise StoreError(f"{database}: expected a file for the store, got {got}", "name a file: --store FILE")
    try:
        with open_for_writing(database, Patience(seconds=0.0)):
            pass
    except StoreBusy:
        return


def _older(connection: Connection) -> str | None:
    """The first migration that a store made by an older version needs; None for an empty or current one."""
    needed = pending(connection)
    return needed[0].__name__ if 0 < len(needed) < len(MIGRATIONS) else None


@contextmanager
def open_for_reading(database: Path, patience: Patience = PATIENT) -> Iterator[Connection]:
    """A store that cannot be changed through this connection; a writer waits for the time of the block. Raises StoreBusy and StoreError."""
    if not database.is_file():
        raise StoreError(f"{database}: there is no store", hint="agentgym store rebuild makes it from the journals of a runs folder")
    with _read_only(database, patience) as connection:
        if not pending(connection):
            yield connection
            return
    with open_for_writing(database, patience):
        pass
    with _read_only(database, patience) as connection:
        yield connection


@contextmanager
def _read_only(database: Path, patience: Patience) -> Iterator[Connection]:
    connection = connect(database, read_only=True, patience=patience)
    try:
        with converted_errors(database):
            yield connection
    finally:
        connection.close()
