"""How fast a server may be asked: requests and tokens a minute, evenly spread, and how many at once. Time is the running loop's clock."""

from __future__ import annotations

import asyncio


class TooSlow(Exception):
    """The limits let the next request start only after its caller's time; ``seconds`` is how long it would wait. Control flow."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Pace:
    """Amounts a minute, one after the other: what is taken now delays the next by its share of a minute. None never delays."""

    def __init__(self, per_minute: float | None) -> None:
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

    async def enter(self, tokens: int, *, until: float) -> None:
        """Wait for a request's place; ``leave`` gives it back.

        Args:
            tokens: how many it is expected to use.
            until: on the loop's clock.

        Raises:
            TooSlow: it could not start before ``until``; nothing is taken.
        """
        now = asyncio.get_running_loop().time()
        pause = max(self._requests.take(1, now=now), self._tokens.take(tokens, now=now))
        if pause > 0 and now + pause > until:
            self._give_back(tokens)
            raise TooSlow(pause)
        if pause > 0:
            await asyncio.sleep(pause)
        if self._slots is None:
            return
        try:
            async with asyncio.timeout_at(until):
                await self._slots.acquire()
        except TimeoutError as err:
            self._give_back(tokens)
            raise TooSlow(until - now) from err

    def leave(self, *, expected: int, used: int | None) -> None:
        """A request is over; ``used`` is None where nobody said how many tokens it took."""
        if used is not None:
            self._tokens.give_back(expected - used)
        if self._slots is not None:
            self._slots.release()

    def _give_back(self, tokens: int) -> None:
        self._requests.give_back(1)
        self._tokens.give_back(tokens)
