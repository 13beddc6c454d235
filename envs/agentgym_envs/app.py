"""A world as an ASGI application: requests read within bounds, answered by the world's wire. Knows no particular world."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import orjson

from agentgym_envs.bodies import Unprocessable
from agentgym_envs.protocol import World, WorldError
from agentgym_envs.shell import Shell
from agentgym_envs.wire import Asked, Reply, Route, Wire

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_BYTES = 1_048_576
"""Most bytes of a request's body."""
_BODY_SECONDS = 30.0
"""How long a body that comes in parts may take."""


def build_app(
    world: World,
    *,
    max_sessions: int = 10_000,
    idle_seconds: float = 3600.0,
    call_seconds: float = 60.0,
    body_bytes: int = MOST_BYTES,
    oracle: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> App:
    """The server of one world.

    Args:
        max_sessions: sessions open at once; one more is refused with a structured error.
        idle_seconds: a session without a call for longer is closed.
        call_seconds: a call on a world that blocks may take so long; then its session is broken.
        body_bytes: a longer body is refused with HTTP 413.
        oracle: also answer the wire's route that tells the actions which solve a task.
        clock: monotonic seconds.
    """
    shell = Shell(world, max_sessions=max_sessions, idle_seconds=idle_seconds, call_seconds=call_seconds, oracle=oracle, clock=clock)
    wire: Wire = import_module(f"agentgym_envs.wires.{world.wire}").WIRE
    return App(shell, wire, body_bytes=body_bytes)


class _Refused(Exception):
    """The request is answered without asking the wire."""

    def __init__(self, status: int, detail: object) -> None:
        super().__init__(detail)
        self.reply = Reply({"detail": detail}, status)


class _Gone(Exception):
    """The client went before its request was read; nobody waits for a reply."""


class App:
    """The ASGI callable. ``stuck`` says after the end how many calls into the world still run."""

    def __init__(self, shell: Shell, wire: Wire, *, body_bytes: int) -> None:
        self.shell = shell
        self.stuck = 0
        self._wire = wire
        self._body_bytes = body_bytes
        self._routes: dict[tuple[str, str], Route] = {(route.method, route.path): route for route in wire.routes(shell)}
        self._paths = {path for _, path in self._routes}

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            with suppress(_Gone):
                await _respond(await self._answer(scope, receive), send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _answer(self, scope: Mapping[str, Any], receive: Receive) -> Reply:
        path = scope["path"]
        try:
            route = self._route(scope["method"], path)
            content = await self._content(receive) if route.method == "POST" else b""
            value = await route.answer(Asked(content, scope["query_string"]))
        except WorldError as refused:
            return self._wire.refused(path, refused)
        except Unprocessable as refused:
            return Reply({"detail": refused.detail}, 422)
        except _Refused as refused:
            return refused.reply
        return value if isinstance(value, Reply) else Reply(value)

    def _route(self, method: str, path: str) -> Route:
        route = self._routes.get(("GET" if method == "HEAD" else method, path))
        if route is None:
            raise _Refused(405, "Method Not Allowed") if path in self._paths else _Refused(404, "Not Found")
        return route

    async def _content(self, receive: Receive) -> bytes:
        """The whole body; HTTP 413 when it is longer than may be, read no further, and 408 when its parts do not come."""
        message = await receive()
        if not message.get("more_body"):
            return self._bounded(message)
        parts = [self._bounded(message)]
        read = len(parts[0])
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                while message.get("more_body"):
                    message = await receive()
                    parts.append(self._bounded(message, read))
                    read += len(parts[-1])
        except TimeoutError as err:
            raise _Refused(408, f"The body did not come within {_BODY_SECONDS:g} seconds.") from err
        return b"".join(parts)

    def _bounded(self, message: Message, read: int = 0) -> bytes:
        if message["type"] != "http.request":
            raise _Gone
        part: bytes = message.get("body", b"")
        if read + len(part) > self._body_bytes:
            raise _Refused(413, f"The body is longer than {self._body_bytes} bytes.")
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


async def _respond(reply: Reply, send: Send) -> None:
    body = reply.value if isinstance(reply.value, bytes) else orjson.dumps(reply.value)
    headers = [(b"content-type", reply.media_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
