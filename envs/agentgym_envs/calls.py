"""Calls into a world: in place where they are quick, else in threads, each under a deadline. Knows no session and no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

from agentgym_envs.protocol import WorldError

T = TypeVar("T")

MOST_THREADS = 64


class TooSlow(WorldError):
    """The call runs longer than the server waits for it."""

    kind: ClassVar[str] = "too_slow"


class Busy(WorldError):
    """No thread became free in the time that a call may take; the call was not made."""

    kind: ClassVar[str] = "busy"


class Calls:
    """Runs calls; at most ``most`` threads, none where ``threads`` is False."""

    def __init__(self, *, threads: bool, seconds: float, most: int = MOST_THREADS) -> None:
        self.seconds = seconds
        self._pool = ThreadPoolExecutor(most, "world") if threads else None
        self._free = asyncio.Semaphore(most)
        self._running: set[asyncio.Future[Any]] = set()

    async def run(self, call: Callable[[], T], *, given_up: Callable[[asyncio.Future[T]], None] | None = None, seconds: float | None = None) -> T:
        """What ``call`` returns or raises.

        Args:
            seconds: its deadline; None is that of every call.
            given_up: called with the call that runs on when nobody waits for it any more: past the deadline, or when this task was cancelled.

        Raises:
            TooSlow: the call runs on.
            Busy: it was not made.
        """
        if self._pool is None:
            return call()
        try:
            async with asyncio.timeout(self.seconds):
                await self._free.acquire()
        except TimeoutError as err:
            raise Busy(f"The server is busy: no thread was free for {self.seconds:g} seconds.") from err
        deadline = self.seconds if seconds is None else seconds
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        self._running.add(future)
        future.add_done_callback(self._ended)
        try:
            await asyncio.wait([future], timeout=deadline)
        finally:
            if not future.done() and given_up is not None:
                given_up(future)
        if not future.done():
            raise TooSlow(f"The call takes longer than {deadline:g} seconds.")
        return future.result()

    async def close(self, grace_seconds: float) -> int:
        """End the threads; how many still run a call after the grace."""
        if self._pool is not None:
            if self._running:
                await asyncio.wait(self._running, timeout=grace_seconds)
            self._pool.shutdown(wait=False, cancel_futures=True)
        return len(self._running)

    def _ended(self, future: asyncio.Future[Any]) -> None:
        self._running.discard(future)
        self._free.release()
        # What nobody waits for is not reported as a failure that nobody saw.
        _ = future.cancelled() or future.exception()
