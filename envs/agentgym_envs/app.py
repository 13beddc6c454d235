"""A world as an ASGI application: requests read within bounds, answered by the world's wire. Knows no particular world."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import orjson

from agentgym_envs.access import Token
from agentgym_envs.bodies import Unprocessable
from agentgym_envs.meters import MEDIA_TYPE, NO_ROUTE, Meter, Meters
from agentgym_envs.protocol import World, WorldError
from agentgym_envs.shell import Shell
from agentgym_envs.wire import Asked, Reply, Route, Wire

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_BYTES = 1_048_576
"""Most bytes of a request's body."""
MOST_HEAD_BYTES = 65_536
"""Most bytes of a request's line and headers."""
METRICS = "/metrics"
_JSON = (b"content-type", b"application/json")
_BODY_SECONDS = 30.0
"""How long a body that comes in parts may take."""

logger = logging.getLogger(__name__)


def _detail(status: int, text: str, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply({"detail": text}, status, headers=headers)


_NOT_FOUND = _detail(404, "Not Found")
_WRONG_METHOD = _detail(405, "Method Not Allowed")
_UNAUTHORIZED = _detail(401, "Not authenticated", (b"www-authenticate", b"Bearer"))
_ENDING = _detail(503, "The server is being ended.")


def build_app(
    world: World,
    *,
    max_sessions: int = 10_000,
    idle_seconds: float = 3600.0,
    call_seconds: float = 60.0,
    body_bytes: int = MOST_BYTES,
    oracle: bool = False,
    token: Token | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> App:
    """The server of one world.

    Args:
        max_sessions: sessions open at once; one more is refused with a structured error.
        idle_seconds: a session without a call for longer is closed.
        call_seconds: a call on a world that blocks may take so long; then its session is broken.
        body_bytes: a longer body is refused with HTTP 413.
        oracle: also answer the wire's route that tells the actions which solve a task.
        token: what every request must bear, else HTTP 401; None asks for none.
        clock: monotonic seconds.
    """
    shell = Shell(world, max_sessions=max_sessions, idle_seconds=idle_seconds, call_seconds=call_seconds, oracle=oracle, clock=clock)
    wire: Wire = import_module(f"agentgym_envs.wires.{world.wire}").WIRE
    return App(shell, wire, body_bytes=body_bytes, token=token)


class _Refused(Exception):
    """The request is answered without asking the wire."""

    def __init__(self, kind: str, reply: Reply) -> None:
        super().__init__(kind)
        self.kind = kind
        self.reply = reply


class _Gone(Exception):
    """The client went before its request was read; nobody waits for a reply."""


class App:
    """The ASGI callable. ``stuck`` says after the end how many calls into the world still run."""

    def __init__(self, shell: Shell, wire: Wire, *, body_bytes: int, token: Token | None) -> None:
        self.shell = shell
        self.stuck = 0
        self._refused_by_wire = wire.refused
        self._body_bytes = body_bytes
        self._token = token
        routes = (*wire.routes(shell), Route("GET", METRICS, self._metrics))
        self._meters = Meters(shell, tuple(f"{route.method} {route.path}" for route in routes))
        by_route = self._meters.by_route
        self._nowhere = by_route[NO_ROUTE]
        self._routes: dict[tuple[str, str], tuple[Route, Meter]] = {}
        for route in routes:
            self._routes[route.method, route.path] = (route, by_route[f"{route.method} {route.path}"])
        self._paths = {path for _, path in self._routes}

    def count_refused(self, kind: str) -> None:
        """Count a request that was refused before it came here."""
        self._nowhere.errors[kind] += 1

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _serve(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        method: str = scope["method"]
        found = self._routes.get(("GET" if method == "HEAD" else method, scope["path"]))
        route, meter = (None, self._nowhere) if found is None else found
        kind: str | None = "crash"
        try:
            try:
                reply, kind = await self._answer(route, scope, receive)
            except asyncio.CancelledError:
                # Only the server cancels, at its end, what is not answered within its grace.
                reply, kind = _ENDING, "ended"
            status, headers, body = _bytes(reply)
        except _Gone:
            kind = "gone"
            return
        finally:
            # An exception that passes here is a fault of ours or the world's: the server logs it and answers 500.
            meter.observe(time.perf_counter() - started)
            if kind is not None:
                meter.errors[kind] += 1
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        if logger.isEnabledFor(logging.DEBUG):
            took = time.perf_counter() - started
            logger.debug("request", extra={"method": method, "path": scope["path"][:200], "status": status, "seconds": round(took, 6)})

    async def _answer(self, route: Route | None, scope: Mapping[str, Any], receive: Receive) -> tuple[object, str | None]:
        """What the wire answers, and the kind of error that it is."""
        try:
            if self._token is not None and not self._token.admits(scope["headers"]):
                raise _Refused("unauthorized", _UNAUTHORIZED)
            if route is None:
                raise _Refused("not_found", _WRONG_METHOD if scope["path"] in self._paths else _NOT_FOUND)
            content = await self._content(receive) if route.method == "POST" else b""
            return await route.answer(Asked(content, scope["query_string"])), None
        except WorldError as refused:
            return self._refused_by_wire(scope["path"], refused), refused.kind
        except Unprocessable as refused:
            return Reply({"detail": refused.detail}, 422), "unprocessable"
        except _Refused as refused:
            return refused.reply, refused.kind

    async def _metrics(self, _: Asked) -> object:
        return Reply(self._meters.text(), media_type=MEDIA_TYPE)

    async def _content(self, receive: Receive) -> bytes:
        """The whole body; HTTP 413 when it is longer than may be, read no further, and 408 when its parts do not come."""
        parts: list[bytes] = []
        read = 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                message = await receive()
                if not message.get("more_body"):
                    return self._bounded(message)
                parts.append(self._bounded(message))
                read = len(parts[0])
                while message.get("more_body"):
                    message = await receive()
                    parts.append(self._bounded(message, read))
                    read += len(parts[-1])
        except TimeoutError as err:
            raise _Refused("slow_body", _detail(408, f"The body did not come within {_BODY_SECONDS:g} seconds.")) from err
        return b"".join(parts)

    def _bounded(self, message: Message, read: int = 0) -> bytes:
        if message["type"] != "http.request":
            raise _Gone
        part: bytes = message.get("body", b"")
        if read + len(part) > self._body_bytes:
            raise _Refused("too_large", _detail(413, f"The body is longer than {self._body_bytes} bytes."))
        return part

    async def _live(self, receive: Receive, send: Send) -> None:
        """From the server's start to its end, when every session is closed."""
        await receive()
        sweeping = asyncio.ensure_future(self.shell.sweep_forever())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        sweeping.cancel()
        self.stuck = await self.shell.end()
        await send({"type": "lifespan.shutdown.complete"})


def _bytes(reply: object) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body."""
    if not isinstance(reply, Reply):
        body = orjson.dumps(reply)
        return 200, [_JSON, (b"content-length", b"%d" % len(body))], body
    body = reply.value if isinstance(reply.value, bytes) else orjson.dumps(reply.value)
    return reply.status, [(b"content-type", reply.media_type.encode()), (b"content-length", b"%d" % len(body)), *reply.headers], body
