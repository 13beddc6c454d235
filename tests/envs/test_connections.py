"""Below the application: heads that are too long or too slow, what is no HTTP, and bodies that go on after a refusal. Over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import uvicorn

from agentgym_envs import connections
from agentgym_envs.access import Token
from agentgym_envs.app import MOST_BYTES, build_app
from agentgym_envs.connections import Bounded
from agentgym_envs.textcraft.world import TextCraft
from tests.envs.books import tiny_book

ASK = b"GET / HTTP/1.1\r\nhost: world\r\n\r\n"
SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Line:
    """One connection to a server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def status(self) -> str:
        """Status of the next reply; its body is read too."""
        async with asyncio.timeout(SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = next(int(line.partition(":")[2]) for line in head.splitlines() if line.startswith("content-length"))
            await self.reader.readexactly(length)
        return head.split(" ", 2)[1]

    async def ends(self) -> bool:
        """Whether the server closes the connection."""
        async with asyncio.timeout(SECONDS):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True


@asynccontextmanager
async def connected(token: Token | None = None) -> AsyncIterator[Line]:
    """A connection to the tiny TextCraft under uvicorn with the bounded protocol."""
    app = build_app(TextCraft(book=tiny_book()), token=token)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, interface="asgi3", http=Bounded, ws="none", log_config=None, access_log=False))
        running = asyncio.ensure_future(server._serve([listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        try:
            yield Line(reader, writer)
        finally:
            writer.close()
            server.should_exit = True
            await running


async def refused(line: Line, kind: str) -> bool:
    """Whether the metrics count one request that was refused so."""
    await line.say(b"GET /metrics HTTP/1.1\r\nhost: world\r\nconnection: close\r\n\r\n")
    async with asyncio.timeout(SECONDS):
        return f'agentgym_errors_total{{kind="{kind}",route="none"}} 1.0'.encode() in await line.reader.read()


async def test_a_head_up_to_the_bound_is_answered_and_a_longer_one_refused_with_or_without_a_token() -> None:
    for token in (None, Token("secret")):
        async with connected(token) as line:
            await line.say(b"GET / HTTP/1.1\r\nx: " + b"x" * 60_000 + b"\r\n\r\n")
            assert await line.status() == ("200" if token is None else "401")
            await line.say(b"GET / HTTP/1.1\r\nx: " + b"x" * 400_000)
            assert await line.status() == "431"
            assert await line.ends()


async def test_a_head_that_does_not_end_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)
    async with connected() as line:
        await line.say(ASK)
        assert await line.status() == "200"
        await line.say(b"GET / HTTP/1.1\r\nhost: wor")
        assert await line.status() == "408"
        assert await line.ends()


async def test_a_head_in_parts_that_ends_in_time_is_answered() -> None:
    async with connected() as line:
        for place in range(len(ASK)):
            await line.say(ASK[place : place + 1])
        assert await line.status() == "200"


async def test_what_is_no_http_is_counted_and_logged_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")
    async with connected() as line:
        await line.say(b"\x00\x01 nothing\r\n\r\n")
        assert await line.status() == "400"
        assert await line.ends()
        reader, writer = await asyncio.open_connection(*line.writer.get_extra_info("peername"))
        assert await refused(Line(reader, writer), "malformed")
        writer.close()
    assert not caplog.records


async def test_a_client_that_is_still_sending_reads_why_it_was_refused_and_goes_on() -> None:
    async with connected() as line:
        size = MOST_BYTES + 1
        await line.say(b"POST /create HTTP/1.1\r\nhost: world\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
        assert await line.status() == "413"
        await line.say(ASK)
        assert await line.status() == "200"


async def test_a_body_without_end_is_cut_off_after_its_refusal() -> None:
    async with connected() as line:
        await line.say(b"POST /create HTTP/1.1\r\nhost: world\r\ncontent-length: 999999999\r\n\r\n" + b"x" * (MOST_BYTES + 1))
        assert await line.status() == "413"
        with pytest.raises(ConnectionError):
            for _ in range(4 * connections.MOST_UNREAD_BYTES // MOST_BYTES):
                await line.say(b"x" * MOST_BYTES)
