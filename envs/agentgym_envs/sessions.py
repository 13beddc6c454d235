"""Open sessions by id: never recycled, bounded in number, forgotten when idle. Knows no HTTP and no particular world."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym_envs.protocol import Session, WorldError


@dataclass(slots=True)
class Entry:
    """A session and what it answered last."""

    session: Session
    used: float
    """When its last call began, in seconds of the table's clock."""
    observation: str = ""
    reward: int = 0
    done: bool = False
    closed: bool = False
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

    def reserve(self) -> int:
        """An id for a session that is being opened; WorldError when the table is full. ``add`` or ``give_up`` must follow."""
        if len(self._entries) + self._opening >= self.most:
            raise WorldError(f"The server is full: {self.most} sessions are open. Close some, or start it with a larger --max-sessions.")
        self._opening += 1
        self._next_id += 1
        return self._next_id - 1

    def add(self, number: int, session: Session, observation: str) -> None:
        """Enter the session that was opened under a reserved id."""
        self._opening -= 1
        self._entries[number] = Entry(session, self.clock(), observation)

    def give_up(self) -> None:
        """The session could not be opened; its id stays unused."""
        self._opening -= 1

    def use(self, number: int) -> Entry:
        """The session's entry, from now on the last used; WorldError when there is none."""
        entry = self.look(number)
        entry.used = self.clock()
        self._entries.move_to_end(number)
        return entry

    def look(self, number: int) -> Entry:
        """The session's entry; WorldError when there is none."""
        entry = self._entries.get(number)
        if entry is None:
            raise not_valid(number)
        return entry

    def remove(self, number: int) -> Entry | None:
        """Take the session out; None when there is none."""
        return self._entries.pop(number, None)

    def remove_idle(self) -> list[Entry]:
        """Take out what nobody has used for too long and no call is using."""
        oldest_kept = self.clock() - self.idle_seconds
        removed = []
        while self._entries:
            number, entry = next(iter(self._entries.items()))
            if entry.used >= oldest_kept:
                break
            if entry.one_call.locked():
                entry.used = self.clock()
                self._entries.move_to_end(number)
                continue
            removed.append(self._entries.pop(number))
        return removed

    def remove_all(self) -> list[Entry]:
        """Take out everything, at the end of the server."""
        entries = list(self._entries.values())
        self._entries.clear()
        return entries


def not_valid(number: int) -> WorldError:
    """The refusal of an id that is not open (any more)."""
    return WorldError(f"The id {str(number)[:40]} is not valid.")
