"""The sessions of one world, as every wire uses them: made, reset, stepped, closed, each call bounded. Knows no HTTP and no particular world."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agentgym_envs.calls import Calls, TooSlow
from agentgym_envs.protocol import JSON, ORACLE_CALLS, Session, Start, Step, World, WorldError
from agentgym_envs.sessions import Broken, Entry, Sessions, not_valid

T = TypeVar("T")
logger = logging.getLogger(__name__)

_GRACE_SECONDS = 3.0
_SWEEPS_PER_IDLE_TIME = 4
_SWEEP_SECONDS = 30.0
"""Sessions that nobody uses are closed this often at least, also where no call comes."""


class Shell:
    """What a wire calls. Methods raise WorldError: of the kinds of ``sessions`` and ``calls``, or the world's own."""

    def __init__(
        self,
        world: World,
        *,
        max_sessions: int = 10_000,
        idle_seconds: float = 3600.0,
        call_seconds: float = 60.0,
        oracle: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Arguments are those of ``app.build_app``.

        ``call_seconds`` bounds each call on a world that blocks, an oracle's at ``ORACLE_CALLS`` times as much.
        """
        self.world = world
        self._blocking = world.blocking
        self.offers_oracle = oracle
        self.sessions = Sessions(most=max_sessions, idle_seconds=idle_seconds, clock=clock)
        self.idle_closed = 0
        """Sessions that were closed because nobody used them."""
        self._calls = Calls(threads=world.blocking, seconds=call_seconds)
        self._tasks: set[asyncio.Task[None]] = set()

    async def create(self, first_task: Callable[[int], int] | None = None) -> Entry:
        """A new session.

        Args:
            first_task: from the session's number to the task that it starts with; None leaves it without a task.
        """
        await self.sweep()
        number = self.sessions.reserve()
        try:
            session = await self._calls.run(self.world.open, given_up=self._close_when_open)
            start = None if first_task is None else await self._first(session, first_task(number))
        except BaseException:
            self.sessions.give_up()
            raise
        entry = self.sessions.add(number, session)
        if start is not None:
            _remember(entry, start)
        return entry

    async def reset(self, number: int, index: int) -> Start:
        """Start task ``index`` in the session."""
        return await self._call(number, lambda session: session.reset(index), _remember)

    async def step(self, number: int, action: str) -> Step:
        """Execute one action in the session."""
        return await self._call(number, lambda session: session.step(action), _remember)

    async def look(self, number: int, name: str) -> JSON:
        """What the session shows under a name."""
        return await self._call(number, lambda session: session.look(name))

    async def oracle(self, number: int) -> tuple[str, ...]:
        """Actions that solve the session's task from its start."""
        return await self._call(number, lambda session: session.oracle(), seconds=ORACLE_CALLS * self._calls.seconds)

    async def verify(self, number: int) -> bool:
        """Whether the session's state satisfies its task."""
        return await self._call(number, lambda session: session.verify())

    async def last(self, number: int) -> Entry:
        """What the session answered last; looking does not keep it from being idle."""
        await self.sweep()
        return self.sessions.look(number)

    async def close(self, number: int) -> bool:
        """Close the session; False when there is none. A call in flight is waited for, one that was given up is not."""
        await self.sweep()
        entry = self.sessions.remove(number)
        if entry is None:
            return False
        if entry.broken is None:
            await self._release(entry)
        return True

    async def sweep(self) -> None:
        """Close the sessions that nobody has used for too long; where closing takes time, this does not wait for it."""
        for entry in self.sessions.remove_idle():
            self.idle_closed += 1
            logger.info("session closed, idle", extra={"session": entry.number})
            if self._blocking:
                self._later(self._release(entry))
            else:
                await self._release(entry)

    async def sweep_forever(self) -> None:
        """Sweep also where no call comes."""
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, self.sessions.idle_seconds / _SWEEPS_PER_IDLE_TIME))
            await self.sweep()

    async def end(self) -> int:
        """Close every session and the world; how many calls run on regardless."""
        for entry in self.sessions.remove_all():
            self._later(self._release(entry))
        while self._tasks:
            await asyncio.wait(self._tasks)
        stuck = await self._calls.close(_GRACE_SECONDS)
        self.world.close()
        return stuck

    async def _call(
        self, number: int, call: Callable[[Session], T], then: Callable[[Entry, T], None] | None = None, *, seconds: float | None = None
    ) -> T:
        """One call on a session, and what is to be done with its value before another; ``seconds`` is its deadline where it has its own."""
        if self.sessions.any_idle():
            await self.sweep()
        entry = self.sessions.use(number)
        if self._blocking:
            return await self._in_turn(entry, call, then, seconds or self._calls.seconds)
        # Nothing is awaited from here on, so that calls cannot interleave.
        value = call(entry.session)
        if then is not None:
            then(entry, value)
        return value

    async def _in_turn(self, entry: Entry, call: Callable[[Session], T], then: Callable[[Entry, T], None] | None, seconds: float) -> T:
        """The same in a thread: calls on one session wait for each other, and one that waited may find it closed or broken."""
        async with entry.one_call:
            if entry.closed:
                raise not_valid(entry.number)
            if entry.broken is not None:
                raise Broken(entry.broken)
            try:
                value = await self._calls.run(
                    lambda: call(entry.session), given_up=lambda running: self._give_up(entry, running, seconds), seconds=seconds
                )
            except TooSlow as err:
                raise TooSlow(entry.broken) from err
            if then is not None:
                then(entry, value)
            return value

    def _give_up(self, entry: Entry, running: asyncio.Future[T], seconds: float) -> None:
        """The session is broken from now on, and is closed when the call that runs in it has ended."""
        entry.broken = f"The session {entry.number} is broken: a call took longer than {seconds:g} seconds. Create another."
        logger.warning("call given up", extra={"session": entry.number, "seconds": seconds})

        def ended(_: asyncio.Future[T]) -> None:
            self.sessions.forget(entry)
            self._later(self._release(entry))

        running.add_done_callback(ended)

    async def _first(self, session: Session, index: int) -> Start:
        """The start of a new session's task; a session that cannot start it is closed."""
        running: asyncio.Future[Start] | None = None

        def given_up(future: asyncio.Future[Start]) -> None:
            nonlocal running
            running = future

        try:
            return await self._calls.run(lambda: session.reset(index), given_up=given_up)
        except BaseException:
            if running is None:
                await self._calls.run(session.close)
            else:
                running.add_done_callback(lambda _: self._later(self._calls.run(session.close)))
            raise

    def _close_when_open(self, opening: asyncio.Future[Session]) -> None:
        def opened(future: asyncio.Future[Session]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._later(self._calls.run(future.result().close))

        opening.add_done_callback(opened)

    async def _release(self, entry: Entry) -> None:
        async with entry.one_call:
            entry.closed = True
            try:
                await self._calls.run(entry.session.close)
            except WorldError as err:
                logger.error("session not closed", extra={"session": entry.number, "reason": str(err)})

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it without waiting for it; ``end`` does."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("session not closed", exc_info=failure)


def _remember(entry: Entry, said: Start | Step) -> None:
    entry.observation, entry.extra = said.observation, said.extra
    entry.reward, entry.done = (said.reward, said.done) if isinstance(said, Step) else (0, False)
