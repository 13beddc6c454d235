"""An event loop whose clock moves only when nothing else can: hours of deadlines pass in milliseconds, always in the same order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class _VirtualSelector(selectors.DefaultSelector):  # type: ignore[valid-type,misc]
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.loop.working_threads:
            return list(super().select(None if timeout is None or timeout > 0 else 0))
        events = super().select(0)
        if events or timeout == 0:
            return list(events)
        assert timeout is not None, "deadlock: no timer is set and no thread works, so nothing can ever happen"
        self.loop.advance(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at second 1000. Worker threads take no time unless they ask for it with ``advance``."""

    def __init__(self) -> None:
        self.working_threads = 0
        self._virtual = 1_000.0
        self._pool = ThreadPoolExecutor(1)
        selector = _VirtualSelector()
        selector.loop = self
        super().__init__(selector)
        self.set_default_executor(self._pool)

    def time(self) -> float:
        return self._virtual

    def advance(self, seconds: float) -> None:
        self._virtual += max(0.0, seconds)

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        self.working_threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: object) -> None:
        self.working_threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._pool.shutdown()


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` under a clock of its own; a deadlock is an error, not a hang."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
