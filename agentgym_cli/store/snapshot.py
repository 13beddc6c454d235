"""A private copy of a store for readers who stay: the store itself is held only while it is copied, and at most every few seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.store.copying import copy_store, look_through, named, open_copy, remove, stamp_of
from agentgym_cli.store.db import Connection, Patience, StoreBusy, converted_errors
from agentgym_cli.store.opening import HURRIED, PATIENT

EVERY = 3.0
"""Least seconds between two copies."""
_SHARE = 20.0
"""A store that takes long to copy is copied less often: at least so many times what it was held for the last time."""
_WORK = 9.0
"""The same for making a copy and looking it through, which takes a processor from a run beside it: at most a tenth of one."""
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
    """Why the copy is not newer although the store has changed; None where it has not, or the next copy is not due or not ready."""


@dataclass(slots=True)
class _Copy:
    path: Path
    connection: Connection
    stamp: str
    held: float
    """Seconds that the store was held for it."""
    made: float
    """When the store was let go again, on the clock."""
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
    prompt: float = 0.5
    """Longest seconds that the reader who finds the store changed waits for a newer copy; the others read the one that is there."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _first: threading.Lock = field(default_factory=threading.Lock)
    _copy: _Copy | None = None
    _renewal: threading.Thread | None = None
    _number: int = 0
    _checked: float = 0.0
    _due: float = 0.0
    _trouble: str | None = None
    _closed: bool = False

    @contextmanager
    def reading(self, seconds: float = ANSWER_SECONDS) -> Iterator[Reading]:
        """A copy to ask for at most ``seconds``, no newer than a few seconds ago where the store has changed.

        Raises:
            StoreBusy: there is no copy yet, and another process holds the store.
            StoreError: the store cannot be read.
            TookTooLong: the time is over.
        """
        self._freshen()
        with self._lock:
            copy = self._copy
            assert copy is not None, "a copy is there, or making one has failed"
            copy.users += 1
            age, trouble = self.clock() - self._checked, self._trouble
        try:
            with named(copy.path, self.database), _within(copy.connection.cursor(), seconds, self.database) as cursor:
                yield Reading(connection=cursor, stamp=copy.stamp, age=age, trouble=trouble)
        finally:
            with self._lock:
                copy.users -= 1
                _drop(copy)

    def close(self) -> None:
        """Give the copy up; whoever reads at this moment may finish. Waits for a copy that is being made."""
        with self._lock:
            self._closed, renewal = True, self._renewal
        if renewal is not None:
            renewal.join()
        with self._lock:
            if self._copy is not None:
                self._copy.old = True
                _drop(self._copy)
            self._copy = None

    def _freshen(self) -> None:
        """Have a copy; have a newer one begun where that is due, and wait for it a moment."""
        with self._first:
            if self._copy is None and not self._closed:
                copy = self._made(self.first_patience)
                self._copy, self._checked, self._due = copy, copy.made, copy.made + self._rest(copy)
                return
        renewal = self._begun(stamp_of(self.database))
        if renewal is not None:
            renewal.join(self.prompt)

    def _begun(self, stamp: str) -> threading.Thread | None:
        """The thread that makes a newer copy, where it is due and none does yet."""
        with self._lock:
            if self._copy is None:
                raise StoreError(f"{self.database}: the viewer of this store is ending")
            now = self.clock()
            if stamp == self._copy.stamp:
                self._checked, self._trouble = now, None
            elif now >= self._due and not self._closed and (self._renewal is None or not self._renewal.is_alive()):
                self._renewal = threading.Thread(target=self._renew, name="snapshot", daemon=True)
                self._renewal.start()
                return self._renewal
        return None

    def _renew(self) -> None:
        """Put a newer copy in place of the one that is there, once all of it could be read."""
        began, copy, trouble = self.clock(), None, None
        try:
            copy = self._made(self.patience)
            look_through(copy.connection, copy.path, self.database)
        except StoreError as err:
            trouble = err.message
        with self._lock:
            now, self._trouble = self.clock(), trouble
            self._due = max(now + _WORK * (now - began), now + self.every if copy is None else copy.made + self._rest(copy))
            if copy is None:
                return
            before = self._copy if trouble is None else copy
            if trouble is None:
                self._copy, self._checked = copy, copy.made
            if before is not None:
                before.old = True
                _drop(before)

    def _rest(self, copy: _Copy) -> float:
        return max(self.every, _SHARE * copy.held)

    def _made(self, patience: Patience) -> _Copy:
        self._number += 1
        path = self.folder / f"{self._number}.duckdb"
        began = self.clock()
        try:
            stamp = copy_store(self.database, path, patience)
            made = self.clock()
            return _Copy(path=path, connection=open_copy(path, self.database), stamp=stamp, held=made - began, made=made)
        finally:
            remove(path)


def _drop(copy: _Copy) -> None:
    if copy.old and copy.users == 0:
        copy.connection.close()
        remove(copy.path)


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
