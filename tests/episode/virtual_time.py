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
    """Starts at second 1000. What runs in a worker thread answers after ``thread_seconds``."""

    def __init__(self) -> None:
        self.working_threads = 0
        self.thread_seconds = 0.0
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
        assert self._virtual < 1e9, "deadlock: what anybody waits for is decades away"

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        self.working_threads += 1
        work = super().run_in_executor(executor, func, *args)
        answer: asyncio.Future[T] = self.create_future()

        def worked(_: object) -> None:
            self.working_threads -= 1
            self.call_later(self.thread_seconds, copy)

        def copy() -> None:
            if answer.done():
                return
            error = work.exception()
            if error is None:
                answer.set_result(work.result())
            else:
                answer.set_exception(error)

        work.add_done_callback(worked)
        return answer

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        self._pool.shutdown()


def run_virtual(main: Coroutine[Any, Any, T], *, thread_seconds: float = 0.0) -> T:
    """Run ``main`` under a clock of its own; a deadlock is an error, not a hang."""

    def loop() -> VirtualLoop:
        made = VirtualLoop()
        made.thread_seconds = thread_seconds
        return made

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main)
