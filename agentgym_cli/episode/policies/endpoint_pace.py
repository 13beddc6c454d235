"""How fast a server may be asked: requests and tokens a minute, evenly spread, and how many at once. Time is the running loop's clock."""

from __future__ import annotations

import asyncio


class Pace:
    """Amounts a minute, one after the other: what is taken now delays the next by its share of a minute. None never delays."""

    def __init__(self, per_minute: float | None) -> None:
        self.limited = per_minute is not None
        self._seconds_each = 0.0 if per_minute is None else 60.0 / per_minute
        self._free_at = float("-inf")

    def take(self, amount: float, *, now: float) -> float:
        """Take an amount; seconds from ``now`` until it may be used."""
        starts = max(now, self._free_at)
        self._free_at = starts + amount * self._seconds_each
        return starts - now

    def give_back(self, amount: float) -> None:
        """What was taken and is not used, or, below 0, what was used beyond it."""
        self._free_at -= amount * self._seconds_each


class Gate:
    """Lets requests through at the pace and in the number that a recipe allows."""

    def __init__(self, *, requests_per_minute: float | None, tokens_per_minute: float | None, in_flight: int | None) -> None:
        self._requests = Pace(requests_per_minute)
        self._tokens = Pace(tokens_per_minute)
        self._slots = None if in_flight is None else asyncio.Semaphore(in_flight)

    @property
    def limited(self) -> bool:
        """Whether anybody ever waits."""
        return self._slots is not None or self._requests.limited or self._tokens.limited

    async def enter(self, tokens: int) -> None:
        """Wait for a request's place, in the order of asking; ``leave`` gives it back. One that is cancelled meanwhile takes nothing.

        Args:
            tokens: how many it is expected to use.
        """
        if self._slots is not None:
            await self._slots.acquire()
        now = asyncio.get_running_loop().time()
        pause = max(self._requests.take(1, now=now), self._tokens.take(tokens, now=now))
        if pause <= 0:
            return
        try:
            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            self._requests.give_back(1)
            self.leave(expected=tokens, used=0)
            raise

    def leave(self, *, expected: int, used: int | None) -> None:
        """A request is over; ``used`` is None where nobody said how many tokens it took."""
        if used is not None:
            self._tokens.give_back(expected - used)
        if self._slots is not None:
            self._slots.release()
