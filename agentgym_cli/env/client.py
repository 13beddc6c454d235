"""Sessions over replicas: who holds which session, one call at a time, done once, closed once. Knows no wire format."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

import httpx

from agentgym_cli.env.breaker import USUAL, BreakerRule
from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.replicas import Replica, Replicas, ServerChange
from agentgym_cli.env.reply import SessionId, shortened
from agentgym_cli.env.wire import build_http as build_http

R = TypeVar("R")
log = logging.getLogger(__name__)
_WHOLE_DEADLINE = 0.99
"""Share of a call's deadline from which a caller that gives up has waited for it all: its own deadline may be a moment before ours."""


class HttpEnvSession:
    """One session of one server (contract.EnvSession). Calls wait for each other; done latches here, whatever the server says later."""

    def __init__(
        self, replica: Replica, session: SessionId, *, replicas: Replicas, trial: int = 0, life: int = 0, call_seconds: float = 60.0
    ) -> None:
        """``replica`` holds the session's id until it is closed; ``replicas`` is told how each call went; ``trial`` and ``life`` are theirs."""
        self._replica = replica
        self._life = life
        self._endpoint = replica.endpoint
        self._id = session
        self._replicas = replicas
        self._trial = trial
        self._call_seconds = call_seconds
        self._one_call = asyncio.Lock()
        self._running = False
        self._closed = False

    @property
    def replica(self) -> str:
        """Base URL of the server that holds this session."""
        return self._endpoint.url

    async def reset(self, task_index: int) -> str:
        """Start the task and return its first observation."""
        async with self._one_call:
            assert not self._closed, "reset after close"
            observation = await self._watched(self._endpoint.reset(self._id, task_index))
            self._running = True
            return observation

    async def step(self, action: str) -> StepReply:
        """Execute one action. Stepping after done, or before a reset, is the caller's mistake."""
        async with self._one_call:
            assert self._running and not self._closed, "step before reset, after done or after close"
            reply = await self._watched(self._endpoint.step(self._id, action))
            self._running = not reply.done
            return reply

    async def oracle(self) -> tuple[str, ...]:
        """Actions that solve the task from its start."""
        async with self._one_call:
            assert not self._closed, "oracle after close"
            return await self._watched(self._endpoint.oracle(self._id), seconds=self._endpoint.oracle_seconds)

    async def verify(self) -> bool:
        """Whether the session's state satisfies its task, by the dialect's verify route."""
        async with self._one_call:
            assert not self._closed, "verify after close"
            return await self._watched(self._endpoint.verify(self._id))

    async def close(self) -> None:
        """Release the session, after the call in flight. Idempotent; a server that refuses is logged, not raised."""
        if self._closed:
            return
        self._closed = True
        async with self._one_call:
            try:
                if self._living:
                    await self._watched(self._endpoint.close(self._id))
            except EnvFailure as failure:
                log.log(logging.DEBUG if self._replica.unclosed else logging.WARNING, "session not closed (%s): %s", failure.cause.value, failure)
                self._replica.unclosed = True
            finally:
                if self._living:
                    self._replica.held.discard(self._id)
                self._replicas.ended(self._replica, self._trial)

    @property
    def _living(self) -> bool:
        """False when its server has ended since: one that is there now may have handed the same id to another episode."""
        return self._life == self._replica.life

    async def _watched(self, call: Coroutine[None, None, R], *, seconds: float | None = None) -> R:
        """Await a call and tell the server's breaker how it went. One that the caller gives up after the whole deadline had no answer either.

        Args:
            seconds: its deadline; None is that of every call.
        """
        if not self._living:
            call.close()
            raise EnvFailure(InfraCause.RESET, f"session {shortened(self._id)} at {self.replica}: expected the server that made it, which has ended")
        deadline = self._call_seconds if seconds is None else seconds
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            answer = await call
        except EnvFailure as failure:
            self._replicas.failed(self._replica, self._trial, failure, began=began)
            raise
        except asyncio.CancelledError:
            if clock() - began >= _WHOLE_DEADLINE * deadline:
                late = EnvFailure(InfraCause.TIMEOUT, f"{self.replica}: expected an answer within {deadline:g} s, got none")
                self._replicas.failed(self._replica, self._trial, late, began=began)
            raise
        self._replicas.answered(self._replica, self._trial)
        return answer


class HttpEnvClient:
    """Opens each session on the replica with the fewest, in turns where several have as few; it stays there (contract.EnvClient)."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        dialect: Dialect,
        urls: Sequence[str],
        *,
        call_seconds: float = 60.0,
        token: str | None = None,
        rule: BreakerRule = USUAL,
        recovery_seconds: float = 300.0,
        on_change: Callable[[ServerChange], None] | None = None,
    ) -> None:
        """What a client of some servers needs.

        Args:
            http: owned from now on.
            call_seconds: deadline of every call.
            token: sent as a bearer token.
            rule: when a server gets no new session.
            recovery_seconds: how long ``ready`` waits while no server takes sessions.
            on_change: hears when a server is given up and when it is back.
        """
        assert urls, "at least one replica"
        self._http = http
        self._call_seconds = call_seconds
        endpoints = [Endpoint(http, dialect, url, call_seconds=call_seconds, token=token) for url in urls]
        self._replicas = Replicas(endpoints, rule=rule, recovery_seconds=recovery_seconds, on_change=on_change)
        self._orphans: set[asyncio.Task[None]] = set()

    async def ready(self) -> None:
        """Return when a session can be opened, at once while any server is well. Raises ServersLost when none came back in time."""
        await self._replicas.ready()

    def give_up(self, url: str, cause: InfraCause, detail: str, *, pause: float) -> None:
        """No session opens on a server that is known to be gone for ``pause`` seconds; infinity waits for ``try_again``."""
        self._replicas.give_up(url, cause, detail, pause=pause)

    def server_ended(self, url: str, detail: str, *, for_good: bool) -> None:
        """The process behind a server has ended: its sessions fail, and none opens there before ``try_again``, ever when it is ``for_good``."""
        self._replicas.server_ended(url, detail, for_good=for_good)

    def try_again(self, url: str) -> None:
        """A server that was given up may be there again: the next session tries it."""
        self._replicas.try_again(url)

    async def open(self) -> HttpEnvSession:
        """Create a session on the next replica. When cancelled, the session that the server may still make is closed in the background.

        Raises EnvFailure(PROTOCOL) when the server hands out the id of a session that is held here: two episodes would share one world.
        """
        replica, trial = self._replicas.next()
        replica.opening += 1
        creation = asyncio.ensure_future(self._create(replica, trial))
        try:
            return await asyncio.shield(creation)
        except asyncio.CancelledError:
            orphan = asyncio.ensure_future(_close_late(creation))
            self._orphans.add(orphan)
            orphan.add_done_callback(self._orphans.discard)
            raise

    async def _create(self, replica: Replica, trial: int) -> HttpEnvSession:
        began, life = asyncio.get_running_loop().time(), replica.life
        try:
            session = self._hold(replica, await replica.endpoint.create(), trial, life)
        except EnvFailure as failure:
            replica.refusing = True
            self._replicas.failed(replica, trial, failure, began=began)
            self._replicas.ended(replica, trial)
            raise
        finally:
            replica.opening -= 1
        replica.refusing = False
        self._replicas.answered(replica, trial)
        return session

    def _hold(self, replica: Replica, session: SessionId, trial: int, life: int) -> HttpEnvSession:
        if life != replica.life:
            raise EnvFailure(InfraCause.RESET, f"create at {replica.endpoint.url}: expected a server that runs on, got one that has ended since")
        if session in replica.held:
            raise EnvFailure(
                InfraCause.PROTOCOL,
                f"create at {replica.endpoint.url}: expected a session of its own, got {shortened(session)}, which is still in use here: "
                f"the server hands out ids again, at the latest after its {len(replica.held)} sessions that are open now",
                "run fewer episodes at once, or serve more replicas (env.urls)",
            )
        replica.held.add(session)
        return HttpEnvSession(replica, session, replicas=self._replicas, trial=trial, life=life, call_seconds=self._call_seconds)

    async def aclose(self) -> None:
        """Wait for sessions that are being closed in the background, then close the HTTP client."""
        await asyncio.gather(*self._orphans)
        await self._http.aclose()


async def _close_late(creation: asyncio.Future[HttpEnvSession]) -> None:
    try:
        session = await creation
    except EnvFailure:
        return
    await session.close()
