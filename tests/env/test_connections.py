"""HTTP/1.1 as servers really speak it, over connections that are kept; sockets of the tests' own."""

from __future__ import annotations

import asyncio
import socket

import httpx
import pytest

from agentgym_cli.env.connections import Connection, ConnectionPool
from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.wire import KEEPALIVE_SECONDS, Target, build_http, exchange
from tests.env.test_wire import HEAD, a_call, asked, failure, listening, serving

WHOLE = HEAD + b"content-length: 2\r\n\r\n{}"


async def answering(*replies: bytes):
    """Replies to the requests of all connections in their order; what it saw is a list of (connection, request)."""
    seen: list[tuple[int, bytes]] = []
    left, connections = list(replies), 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        mine = connections
        while left:
            seen.append((mine, await reader.readuntil(b"\r\n\r\n")))
            writer.write(left.pop(0))
            await writer.drain()
        await reader.read()

    return talk, seen


@pytest.mark.parametrize(
    "reply",
    [
        HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n1;why=not\r\n}\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-trailer: 1\r\n\r\n",
        HEAD + b"\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
        b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE,
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + WHOLE,
        b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 2\r\n\r\n{}",
    ],
    ids=["chunks", "trailer", "until the end", "HTTP/1.0", "100", "103", "upper case"],
)
async def test_a_body_is_read_however_its_end_is_told(reply):
    async with serving(reply) as (url, _):
        assert await asked(url) == b"{}"


async def test_a_body_in_many_pieces_is_one_body():
    async with serving(HEAD + b"content-length: 6\r\n\r\n", b"ab", b"cd", b"ef") as (url, _):
        assert await asked(url) == b"abcdef"


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
        HEAD + b"content-length: -2\r\n\r\n{}",
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    ],
    ids=["upgrade", "continues for ever", "two lengths", "negative length", "no chunk size"],
)
async def test_promise_02_what_is_no_reply_of_http_is_said_to_be_none(reply):
    async with serving(reply) as (url, _):
        assert (await failure(url)).cause is InfraCause.PROTOCOL


async def test_a_body_without_a_length_that_is_reset_is_no_reply():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"\r\n{")
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with listening(talk) as url:
        assert (await failure(url)).cause is InfraCause.RESET


async def test_calls_after_each_other_share_a_connection_and_calls_at_once_do_not():
    talk, seen = await answering(*[WHOLE] * 4)
    async with listening(talk) as url, build_http() as http:
        for _ in range(2):
            await exchange(http, a_call(url), seconds=5)
        await asyncio.gather(*(exchange(http, a_call(url), seconds=5) for _ in range(2)))
    assert [connection for connection, _ in seen] == [1, 1, 1, 2]


@pytest.mark.parametrize("reply", [HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\n{}", b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}"])
async def test_a_connection_that_the_server_gives_up_is_used_once(reply):
    talk, seen = await answering(reply, WHOLE)
    async with listening(talk) as url, build_http() as http:
        for _ in range(2):
            await exchange(http, a_call(url), seconds=5)
    assert [connection for connection, _ in seen] == [1, 2]


async def test_promise_11_a_reply_that_nobody_asked_for_is_given_to_nobody():
    forged = HEAD + b"content-length: 6\r\n\r\nforged"
    talk, seen = await answering(WHOLE + forged, HEAD + b"content-length: 4\r\n\r\ntrue")
    async with listening(talk) as url, build_http() as http:
        bodies = [(await exchange(http, a_call(url), seconds=5)).body for _ in range(2)]
    assert bodies == [b"{}", b"true"]
    assert [connection for connection, _ in seen] == [1, 2]


async def test_a_connection_that_idled_longer_than_servers_keep_one_is_not_used(monkeypatch):
    talk, seen = await answering(WHOLE, WHOLE)
    async with listening(talk) as url, build_http() as http:
        await exchange(http, a_call(url), seconds=5)
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + KEEPALIVE_SECONDS + 0.1)
        await exchange(http, a_call(url), seconds=5)
        assert len(http.network().open) == 1
    assert [connection for connection, _ in seen] == [1, 2]


async def test_a_call_that_is_given_up_ends_its_connection():
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.read()
        ended.set()

    async with listening(talk) as url, build_http() as http:
        with pytest.raises(EnvFailure):
            await exchange(http, a_call(url), seconds=0.05)
        await asyncio.wait_for(ended.wait(), 5)


async def test_closing_the_client_ends_a_call_under_way():
    begun = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await reader.read()

    async with listening(talk) as url:
        http = build_http()
        calling = asyncio.ensure_future(exchange(http, a_call(url), seconds=5))
        await begun.wait()
        await http.aclose()
        with pytest.raises(EnvFailure) as caught:
            await calling
    assert caught.value.cause is InfraCause.RESET


@pytest.mark.parametrize("leave", ["the block", "aclose"])
async def test_a_client_that_is_closed_leaves_no_socket_open(leave):
    talk, _ = await answering(WHOLE, WHOLE)
    async with listening(talk) as url:
        http = build_http()
        pool = http.network()
        if leave == "aclose":
            await exchange(http, a_call(url), seconds=5)
            kept = list(pool.open)
            await http.aclose()
        else:
            async with http:
                await exchange(http, a_call(url), seconds=5)
                kept = list(pool.open)
        assert [connection.usable for connection in kept] == [False]
        assert pool.open == set()


async def test_a_server_that_speaks_no_tls_is_a_connect_failure_that_says_so():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(talk) as url:
        caught = await failure(url.replace("http:", "https:"))
    assert caught.cause is InfraCause.CONNECT
    assert "expected TLS and a certificate that is known" in caught.message


def test_a_request_says_where_it_goes_and_what_goes_with_it():
    target = Target("GET", httpx.URL("http://127.0.0.1:8000/observation?id=1%202"), httpx.Headers({"x": "y"}))
    assert target.head == b"GET /observation?id=1%202 HTTP/1.1\r\nhost: 127.0.0.1:8000\r\nx: y\r\ncontent-length: "
    assert Target("GET", httpx.URL("https://[::1]/"), httpx.Headers()).head.startswith(b"GET / HTTP/1.1\r\nhost: [::1]\r\n")


def test_promise_11_a_header_cannot_smuggle_in_another():
    with pytest.raises(AssertionError, match="a header of one line"):
        Target("GET", httpx.URL("http://127.0.0.1/"), httpx.Headers({"authorization": "Bearer a\r\nx: y"}))


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux only")
async def test_replies_are_acknowledged_at_once():
    """A server that sends the head of a reply and waits for it to be acknowledged before it sends the body would wait for 40 ms."""
    wire = RecordingTransport()
    connection = Connection(ConnectionPool(idle_seconds=1, max_body_bytes=100))
    connection.connection_made(wire)
    asking = asyncio.ensure_future(connection.ask(b"POST / HTTP/1.1\r\n\r\n", b"{}"))
    await asyncio.sleep(0)
    connection.data_received(WHOLE)
    assert (await asking).body == b"{}"
    assert wire.events == [b"POST / HTTP/1.1\r\n\r\n{}", (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)]


class RecordingTransport(asyncio.Transport):
    """Keeps what is written and which options its socket gets."""

    def __init__(self) -> None:
        super().__init__({"socket": self})
        self.events: list[object] = []

    def write(self, data: bytes) -> None:
        self.events.append(data)

    def setsockopt(self, *option: int) -> None:
        self.events.append(option)

    def is_closing(self) -> bool:
        return False


def test_another_event_loop_carries_calls_too():
    # A worker of a cluster's engine runs on uvloop, whose transports are no subclasses of asyncio's.
    uvloop = pytest.importorskip("uvloop")

    async def two_calls() -> list[bytes]:
        async with serving(WHOLE) as (url, _):
            return [await asked(url), await asked(url)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(two_calls()) == [b"{}", b"{}"]
