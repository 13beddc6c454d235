"""A private copy of a store for readers who stay: the store itself is held only while it is copied, and at most every few seconds."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.store.db import Connection, Patience, StoreBusy, connect, converted_errors
from agentgym_cli.store.opening import HURRIED, PATIENT, open_for_reading

EVERY = 3.0
"""Least seconds between two copies."""
_SHARE = 20.0
"""A store that takes long to copy is copied less often: at least so many times what the last copy took."""
_MEMORY = "set memory_limit = '1GB'"
ANSWER_SECONDS = 20.0
"""Longest that one reader may ask; a question that takes longer is broken off."""


class TookTooLong(StoreError):
    """A question was broken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An open copy and how it stands to the store."""

    connection: Connection
    stamp: str
    """Changes with the store's content."""
    age: float
    """Seconds since the copy was known to be what the store holds."""
    trouble: str | None
    """Why the copy is not newer although the store has changed; None where it has not, or the next copy is not due."""


@dataclass(slots=True)
class _Copy:
    path: Path
    connection: Connection
    stamp: str
    users: int = 0
    old: bool = False


@dataclass(slots=True)
class Snapshots:
    """Hands out read-only cursors on copies of one store, in a folder of its own that nobody else can read. For several threads."""

    database: Path
    folder: Path
    every: float = EVERY
    clock: Callable[[], float] = time.monotonic
    patience: Patience = HURRIED
    first_patience: Patience = PATIENT
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _copy: _Copy | None = None
    _number: int = 0
    _checked: float = 0.0
    _due: float = 0.0
    _trouble: str | None = None

    @contextmanager
    def reading(self, seconds: float = ANSWER_SECONDS) -> Iterator[Reading]:
        """A copy to ask for at most ``seconds``, no newer than a few seconds ago where the store has changed.

        Raises:
            StoreBusy: there is no copy yet, and another process holds the store.
            StoreError: the store cannot be read.
            TookTooLong: the time is over.
        """
        with self._lock:
            copy = self._current()
            copy.users += 1
            age, trouble = self.clock() - self._checked, self._trouble
        try:
            with _within(copy.connection.cursor(), seconds, self.database) as cursor:
                yield Reading(connection=cursor, stamp=copy.stamp, age=age, trouble=trouble)
        finally:
            with self._lock:
                copy.users -= 1
                _drop(copy)

    def close(self) -> None:
        """Give the copy up; whoever reads at this moment may finish."""
        with self._lock:
            if self._copy is not None:
                self._copy.old = True
                _drop(self._copy)
            self._copy = None

    def _current(self) -> _Copy:
        if self._copy is None:
            self._copy = self._taken(self.first_patience)
            return self._copy
        now, stamp = self.clock(), _stamp(self.database)
        if stamp == self._copy.stamp:
            self._checked, self._trouble = now, None
        elif now >= self._due:
            self._renew(now)
        return self._copy

    def _renew(self, now: float) -> None:
        before = self._copy
        assert before is not None, "there is a copy to renew"
        try:
            self._copy = self._taken(self.patience)
        except StoreError as err:
            self._trouble, self._due = err.message, now + self.every
            return
        before.old = True
        _drop(before)

    def _taken(self, patience: Patience) -> _Copy:
        self._number += 1
        path = self.folder / f"{self._number}.duckdb"
        began, connection = self.clock(), None
        try:
            stamp = _copied(self.database, path, patience)
            connection = _opened(path)
        finally:
            if connection is None:
                _remove(path)
        self._checked, self._trouble = self.clock(), None
        self._due = self._checked + max(self.every, _SHARE * (self._checked - began))
        return _Copy(path=path, connection=connection, stamp=stamp)


def _copied(database: Path, path: Path, patience: Patience) -> str:
    """Copy a store with its log while no writer can have it; returns its stamp."""
    if not database.is_file():
        raise StoreError(f"{database}: there is no store", hint="agentgym store rebuild makes it from the journals of a runs folder")
    held = connect(database, read_only=True, patience=patience)
    try:
        stamp = _stamp(database)
        # The log first: closing a file gives up this process's locks on it, and the database's is the one that counts.
        with suppress(FileNotFoundError):
            shutil.copyfile(_log(database), _log(path))
        shutil.copyfile(database, path)
    except OSError as err:
        raise StoreError(f"{path.parent}: cannot copy the store: {err.strerror or err}", hint="free some space") from err
    finally:
        held.close()
    return stamp


def _opened(path: Path) -> Connection:
    """A copy is brought up to date before it is opened for reading; the store that it was made from stays as it is."""
    with open_for_reading(path):
        pass
    connection = connect(path, read_only=True, patience=PATIENT)
    connection.execute(_MEMORY)
    return connection


def _remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)


def _log(database: Path) -> Path:
    return database.with_name(f"{database.name}.wal")


def _stamp(database: Path) -> str:
    parts = []
    for path in (database, _log(database)):
        try:
            known = path.stat()
        except OSError:
            continue
        parts.append(f"{known.st_ino:x}-{known.st_size:x}-{known.st_mtime_ns:x}")
    return ".".join(parts)


def _drop(copy: _Copy) -> None:
    if copy.old and copy.users == 0:
        copy.connection.close()
        _remove(copy.path)


@contextmanager
def _within(cursor: Connection, seconds: float, database: Path) -> Iterator[Connection]:
    over, done = threading.Event(), threading.Event()

    def stop() -> None:
        over.set()
        # Again and again, since it may come between two questions.
        while not done.is_set():
            cursor.interrupt()
            done.wait(0.1)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        with converted_errors(database):
            yield cursor
    except StoreError as err:
        if over.is_set() and not isinstance(err, StoreBusy):
            raise TookTooLong(f"{database}: the question took longer than {seconds:g} s", hint="ask for less, e.g. one step or split") from err
        raise
    finally:
        timer.cancel()
        done.set()
        timer.join()
        cursor.close()
