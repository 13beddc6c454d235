"""Sessions over replicas: who holds which session, one call at a time, done once, closed once. Knows no wire format."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

import httpx

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.reply import SessionId, shortened
from agentgym_cli.env.wire import build_http as build_http

log = logging.getLogger(__name__)


class HttpEnvSession:
    """One session of one server (contract.EnvSession). Calls wait for each other; done latches here, whatever the server says later."""

    def __init__(self, endpoint: Endpoint, session: SessionId, *, held: set[SessionId]) -> None:
        """``held`` has the ids that this client holds on the server; this one leaves it when it is closed."""
        self._endpoint = endpoint
        self._id = session
        self._held = held
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
            observation = await self._endpoint.reset(self._id, task_index)
            self._running = True
            return observation

    async def step(self, action: str) -> StepReply:
        """Execute one action. Stepping after done, or before a reset, is the caller's mistake."""
        async with self._one_call:
            assert self._running and not self._closed, "step before reset, after done or after close"
            reply = await self._endpoint.step(self._id, action)
            self._running = not reply.done
            return reply

    async def oracle(self) -> tuple[str, ...]:
        """Actions that solve the task from its start."""
        async with self._one_call:
            assert not self._closed, "oracle after close"
            return await self._endpoint.oracle(self._id)

    async def verify(self) -> bool:
        """Whether the session's state satisfies its task, by the dialect's verify route."""
        async with self._one_call:
            assert not self._closed, "verify after close"
            return await self._endpoint.verify(self._id)

    async def close(self) -> None:
        """Release the session, after the call in flight. Idempotent; a server that refuses is logged, not raised."""
        if self._closed:
            return
        self._closed = True
        async with self._one_call:
            try:
                await self._endpoint.close(self._id)
            except EnvFailure as failure:
                log.warning("session not closed (%s): %s", failure.cause.value, failure)
            finally:
                self._held.discard(self._id)


class HttpEnvClient:
    """Opens each session on the replica with the fewest, in turns where several have as few; it stays there (contract.EnvClient)."""

    def __init__(
        self, http: httpx.AsyncClient, dialect: Dialect, urls: Sequence[str], *, call_seconds: float = 60.0, token: str | None = None
    ) -> None:
        """``http`` is owned from now on; ``call_seconds`` is the deadline of every call; ``token`` is sent as a bearer token."""
        assert urls, "at least one replica"
        self._http = http
        self._endpoints = [Endpoint(http, dialect, url, call_seconds=call_seconds, token=token) for url in urls]
        self._opening: Counter[str] = Counter()
        self._refusing: set[str] = set()
        self._held: dict[str, set[SessionId]] = {}
        self._orphans: set[asyncio.Task[None]] = set()

    async def open(self) -> HttpEnvSession:
        """Create a session on the next replica. When cancelled, the session that the server may still make is closed in the background.

        Raises EnvFailure(PROTOCOL) when the server hands out the id of a session that is held here: two episodes would share one world.
        """
        endpoint = self._next()
        self._opening[endpoint.url] += 1
        creation = asyncio.ensure_future(self._create(endpoint))
        try:
            return await asyncio.shield(creation)
        except asyncio.CancelledError:
            orphan = asyncio.ensure_future(_close_late(creation))
            self._orphans.add(orphan)
            orphan.add_done_callback(self._orphans.discard)
            raise

    def _next(self) -> Endpoint:
        load = {url: len(self._held.get(url, ())) + self._opening[url] for url in (endpoint.url for endpoint in self._endpoints)}
        # A replica that refuses holds nothing, and would be asked every time.
        load |= dict.fromkeys(self._refusing, max(load.values()))
        chosen = min(self._endpoints, key=lambda endpoint: load[endpoint.url])
        self._endpoints.remove(chosen)
        self._endpoints.append(chosen)
        return chosen

    async def _create(self, endpoint: Endpoint) -> HttpEnvSession:
        try:
            session = self._hold(endpoint, await endpoint.create())
        except EnvFailure:
            self._refusing.add(endpoint.url)
            raise
        finally:
            self._opening[endpoint.url] -= 1
        self._refusing.discard(endpoint.url)
        return session

    def _hold(self, endpoint: Endpoint, session: SessionId) -> HttpEnvSession:
        held = self._held.setdefault(endpoint.url, set())
        if session in held:
            raise EnvFailure(
                InfraCause.PROTOCOL,
                f"create at {endpoint.url}: expected a session of its own, got {shortened(session)}, which is still in use here: "
                f"the server hands out ids again, at the latest after its {len(held)} sessions that are open now",
                "run fewer episodes at once, or serve more replicas (env.urls)",
            )
        held.add(session)
        return HttpEnvSession(endpoint, session, held=held)

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
