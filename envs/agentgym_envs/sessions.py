"""Open sessions by id: never recycled, bounded in number, forgotten when idle. Knows no HTTP and no particular world."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from agentgym_envs.protocol import JSON, Session, WorldError


class UnknownSession(WorldError):
    """The id is not open (any more)."""

    kind: ClassVar[str] = "unknown_session"


class Full(WorldError):
    """As many sessions are open as may be."""

    kind: ClassVar[str] = "full"


class Broken(WorldError):
    """A call on the session ran past its deadline; it takes no more calls and is closed when that call ends."""

    kind: ClassVar[str] = "broken"


@dataclass(slots=True)
class Entry:
    """A session and what it answered last."""

    number: int
    session: Session
    used: float
    """When its last call began, in seconds of the table's clock."""
    observation: str | None = None
    """None before its first reset."""
    reward: float = 0
    done: bool = False
    extra: Mapping[str, JSON] = field(default_factory=dict)
    """Further fields of its last reply."""
    closed: bool = False
    broken: str | None = None
    """Why it takes no more calls."""
    one_call: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a call, so that calls on one session never interleave."""


@dataclass(slots=True, kw_only=True)
class Sessions:
    """The table. Entries stand in the order of their last use."""

    most: int
    """Sessions open at once."""
    idle_seconds: float
    """A session without a call for longer is closed."""
    clock: Callable[[], float]
    """Monotonic seconds."""
    _entries: OrderedDict[int, Entry] = field(default_factory=OrderedDict)
    _opening: int = 0
    _next_id: int = 0

    def __len__(self) -> int:
        """How many are open or being opened."""
        return len(self._entries) + self._opening

    @property
    def made(self) -> int:
        """How many ids have been given away so far."""
        return self._next_id

    def reserve(self) -> int:
        """An id for a session that is being opened; Full when the table is. ``add`` or ``give_up`` must follow."""
        if len(self) >= self.most:
            raise Full(f"The server is full: {self.most} sessions are open. Close some, or start it with a larger --max-sessions.")
        self._opening += 1
        self._next_id += 1
        return self._next_id - 1

    def add(self, number: int, session: Session) -> Entry:
        """Enter the session that was opened under a reserved id."""
        self._opening -= 1
        entry = self._entries[number] = Entry(number, session, self.clock())
        return entry

    def give_up(self) -> None:
        """The session could not be opened; its id stays unused."""
        self._opening -= 1

    def use(self, number: int) -> Entry:
        """The session's entry, from now on the last used; UnknownSession when there is none, Broken when it takes no more calls."""
        entry = self.look(number)
        if entry.broken is not None:
            raise Broken(entry.broken)
        entry.used = self.clock()
        self._entries.move_to_end(number)
        return entry

    def look(self, number: int) -> Entry:
        """The session's entry; UnknownSession when there is none."""
        entry = self._entries.get(number)
        if entry is None or entry.closed:
            raise not_valid(number)
        return entry

    def remove(self, number: int) -> Entry | None:
        """Take the session out; None when there is none. A broken one stays, closed, and keeps its room until ``forget``."""
        entry = self._entries.get(number)
        if entry is None or entry.closed:
            return None
        if entry.broken is None:
            return self._entries.pop(number)
        entry.closed = True
        return entry

    def forget(self, entry: Entry) -> None:
        """Take a broken session out."""
        self._entries.pop(entry.number, None)

    def any_idle(self) -> bool:
        """Whether ``remove_idle`` has something to look at; quick, for every call asks."""
        for entry in self._entries.values():
            return entry.used < self.clock() - self.idle_seconds
        return False

    def remove_idle(self) -> list[Entry]:
        """Take out what nobody has used for too long and no call is using."""
        oldest_kept = self.clock() - self.idle_seconds
        removed = []
        while self._entries:
            number, entry = next(iter(self._entries.items()))
            if entry.used >= oldest_kept:
                break
            if entry.broken is not None or entry.one_call.locked():
                entry.used = self.clock()
                self._entries.move_to_end(number)
                continue
            removed.append(self._entries.pop(number))
        return removed

    def remove_all(self) -> list[Entry]:
        """Take out everything that is not broken, at the end of the server."""
        entries = [entry for entry in self._entries.values() if entry.broken is None]
        self._entries.clear()
        return entries


def not_valid(number: int) -> UnknownSession:
    """The refusal of an id that is not open."""
    return UnknownSession(f"The id {str(number)[:40]} is not valid.")
