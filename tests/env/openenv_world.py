"""An OpenEnv server made of recorded exchanges, over real WebSockets on loopback: healthy, or with one fault by name.

The record is that of the server, but for the host in the links of its error details.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import WSMsgType, web

RECORD = json.loads((Path(__file__).parent / "data" / "openenv_upstream.json").read_text())
FULL = json.loads(RECORD["socket"][-1]["reply"])
READY = "Echo Demo environment ready!"
MEBIBYTE = 1024 * 1024


def error(message: str, code: str, **more: object) -> dict[str, object]:
    return {"type": "error", "data": {"message": message, "code": code, **more}}


def observation(text: str, length: int, reward: object) -> dict[str, object]:
    return {"type": "observation", "data": {"observation": {"echoed_message": text, "message_length": length}, "reward": reward, "done": False}}


def answer(text: str, steps: int = 0) -> dict[str, object]:
    """What the recorded server says to a frame: word for word where it was asked that, and as it answered the like of it elsewhere."""
    for exchange in RECORD["socket"]:
        if exchange["sent"] == text and "state" not in text:
            return json.loads(exchange["reply"])
    frame = json.loads(text)
    if frame["type"] == "reset":
        return observation(READY, 0, 0.0)
    if frame["type"] == "state":
        return {"type": "state", "data": {"episode_id": "9f751952-18d1-4fde-956f-88e64e3cbd97", "step_count": steps}}
    message = frame["data"].get("message")
    if not isinstance(message, str) or frame["data"].keys() != {"message"}:
        return error("Invalid message", "VALIDATION_ERROR", errors=[])
    return observation(message, len(message), 0.1 * len(message))


@dataclass
class OpenEnvWorld:
    """The server's state. ``room`` is its cap on sessions; ``fault`` '' or what it does wrong, where it can at the second frame of a session."""

    room: int = 64
    fault: str = ""
    live: int = 0
    most: int = 0
    frames: list[object] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    met: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when somebody asks for a connection."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a ping was answered."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection has ended."""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Its URL, for as long as the block runs."""
        app = web.Application()
        app.router.add_get("/ws", self.socket)
        for path in ("/health", "/metadata"):
            app.router.add_get(path, said(next(exchange for exchange in RECORD["http"] if exchange["path"] == path)))
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def socket(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(request.headers)
        self.met.set()
        if self.fault == "redirect":
            raise web.HTTPFound("/metadata")
        if self.fault.startswith("HTTP "):
            return web.Response(status=int(self.fault.removeprefix("HTTP ")), text="<h1>no</h1>")
        socket = web.WebSocketResponse(autoping=False, timeout=0.1)
        await socket.prepare(request)
        if self.live >= self.room:
            await socket.send_json({**FULL, "data": FULL["data"] | {"active_sessions": self.live, "max_sessions": self.room}})
            await socket.close()
            return socket
        self.live += 1
        self.most = max(self.most, self.live)
        try:
            await self.session(socket, request)
        finally:
            self.live -= 1
            self.gone.set()
        await socket.close()
        return socket

    async def session(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        steps = asked = 0
        async for message in socket:
            if message.type is WSMsgType.PONG:
                self.heard.set()
                continue
            if message.type is not WSMsgType.TEXT:
                return
            self.frames.append(json.loads(message.data))
            asked += 1
            kind = json.loads(message.data)["type"]
            if kind == "close" and self.fault != "does not close":
                return
            if kind == "close":
                continue
            steps = 0 if kind == "reset" else steps + (kind == "step")
            if asked > 1 and self.fault:
                await self.fail(socket, request, message.data)
            else:
                await socket.send_json(answer(message.data, steps))

    async def fail(self, socket: web.WebSocketResponse, request: web.Request, text: str) -> None:
        """The fault, in place of an answer or beside it."""
        assert request.transport is not None
        said: dict[str, str] = {"no JSON": "<h1>hello</h1>", "NaN": '{"type": "observation", "data": NaN}', "a list": "[]"}
        if self.fault == "closes":
            await socket.close(code=4001, message=b"\x1b[31mout of memory")
        elif self.fault == "cuts":
            request.transport.abort()
        elif self.fault == "binary":
            await socket.send_bytes(b"{}")
        elif self.fault == "100 MB":
            request.transport.write(bytes([129, 127]) + (100 * MEBIBYTE).to_bytes(8, "big") + b" " * 16 * MEBIBYTE)
        elif self.fault == "pieces":
            for number in range(9):
                request.transport.write(bytes([1 if number == 0 else 0, 127]) + MEBIBYTE.to_bytes(8, "big") + b" " * MEBIBYTE)
        elif self.fault == "answers twice":
            await socket.send_json(answer(text))
            await socket.send_json(answer(text))
        elif self.fault == "pings":
            await socket.send_json(answer(text))
            await socket.ping()
        elif self.fault == "fails":
            await socket.send_json(error("division by zero " + "x" * 10_000, "EXECUTION_ERROR"))
        elif self.fault == "does not close":
            await socket.send_json(answer(text))
        elif self.fault in said:
            await socket.send_str(said[self.fault])
        else:
            assert self.fault == "hangs"


def said(exchange: dict[str, object]) -> object:
    """A handler that answers as recorded."""

    async def handle(request: web.Request) -> web.Response:
        return web.Response(status=exchange["status"], text=exchange["reply"], content_type=exchange["type"])

    return handle
