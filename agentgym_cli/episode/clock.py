"""The clock of one episode: the running loop's, which stands still while the run's own limits hold a request back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class EpisodeClock:
    """Tells the time that counts against deadlines, and moves the deadline of the call in progress by what does not count."""

    def __init__(self) -> None:
        self._wall = asyncio.get_running_loop().time
        self._held = 0.0
        self._scope: asyncio.Timeout | None = None
        self._end = 0.0

    def time(self) -> float:
        """Seconds on the loop's clock, less those held."""
        return self._wall() - self._held

    def bound(self, end: float) -> asyncio.Timeout:
        """The scope of a call that ends at ``end`` on this clock; until ``unbound`` it moves with the clock."""
        self._end, self._scope = end, asyncio.timeout_at(end + self._held)
        return self._scope

    def unbound(self) -> None:
        """The call is over."""
        self._scope = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stand still for the block, however long it takes."""
        began = self._wall()
        if self._scope is not None:
            self._scope.reschedule(None)
        try:
            yield
        finally:
            self._held += self._wall() - began
            if self._scope is not None:
                self._scope.reschedule(self._end + self._held)
