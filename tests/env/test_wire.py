"""What can go wrong below JSON, against sockets of the tests' own."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
import tracemalloc
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.wire import MAX_REPLY_BYTES, Call, Target, build_http, exchange

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@asynccontextmanager
async def listening(talk):
    """A server that says to each connection what ``talk(reader, writer)`` does; its URL. At the end no connection is left."""
    talks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talks.add(asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks)


@asynccontextmanager
async def serving(*replies: bytes | None):
    """A server that says ``replies`` to a request; None waits until the client goes away. Gives its URL and the requests it saw."""
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        for reply in replies:
            if reply is None:
                await reader.read()
            else:
                writer.write(reply)
                await writer.drain()

    async with listening(talk) as url:
        yield url, seen


async def asked(url: str, *, seconds: float = 5.0) -> bytes:
    async with build_http() as http:
        return (await exchange(http, a_call(url), seconds=seconds)).body


def a_call(url: str, *, method: str = "POST", content: bytes | None = b"{}") -> Call:
    return Call(Target(method, httpx.URL(url), httpx.Headers({"accept-encoding": "identity"})), content)


async def failure(url: str, *, seconds: float = 5.0) -> EnvFailure:
    with pytest.raises(EnvFailure) as caught:
        await asked(url, seconds=seconds)
    return caught.value


@pytest.mark.parametrize(
    ("replies", "cause"),
    [
        ([], InfraCause.RESET),
        ([HEAD], InfraCause.RESET),
        ([HEAD + b'content-length: 100\r\n\r\n{"id":'], InfraCause.RESET),
        ([b"this is no HTTP\r\n\r\n"], InfraCause.PROTOCOL),
        ([HEAD + b"x: " + b"y" * 100_000 + b"\r\n\r\n"], InfraCause.PROTOCOL),
        ([HEAD + b"Content-Encoding: gzip\r\ncontent-length: 3\r\n\r\nabc"], InfraCause.PROTOCOL),
        ([HEAD + b"content-length: 10485760\r\n\r\n" + b" " * 10_485_760], InfraCause.PROTOCOL),
        ([HEAD + b"transfer-encoding: chunked\r\n\r\n", *[b"100000\r\n" + b" " * 0x100000 + b"\r\n"] * 100], InfraCause.PROTOCOL),
    ],
)
async def test_promise_02_a_broken_exchange_is_a_failure_with_its_cause(replies, cause):
    async with serving(*replies) as (url, seen):
        assert (await failure(url)).cause is cause
        assert len(seen) == 1


@pytest.mark.parametrize("replies", [[None], [HEAD, None], [HEAD + b"content-length: 9\r\n\r\n{", None]])
async def test_promise_11_a_server_that_hangs_runs_into_the_deadline(replies):
    async with serving(*replies) as (url, _):
        caught = await failure(url, seconds=0.1)
    assert caught.cause is InfraCause.TIMEOUT
    assert str(caught) == f"POST {url}: expected a reply within 0.1 s, got none"


async def test_a_trickle_does_not_move_the_deadline():
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"content-length: 1000000000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0)

    async with listening(trickle) as url:
        assert (await failure(url, seconds=0.2)).cause is InfraCause.TIMEOUT


async def test_a_reset_connection_is_a_reset():
    def reset(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.recv(1000)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = asyncio.to_thread(reset, listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        caught, _ = await asyncio.gather(failure(url), accepting)
    assert caught.cause is InfraCause.RESET


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_call_whose_connection_is_lost_is_not_sent_again_whatever_its_method(method):
    """Over a connection that has served a call before: HTTP clients like to repeat a GET there."""
    seen: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            if len(seen) > 1:
                writer.transport.abort()
                return
            writer.write(HEAD + b"content-length: 2\r\n\r\n{}")

    async with listening(talk) as url, build_http() as http:
        call = a_call(url, method=method, content=None)
        await exchange(http, call, seconds=5.0)
        with pytest.raises(EnvFailure) as caught:
            await exchange(http, call, seconds=5.0)
    assert caught.value.cause is InfraCause.RESET
    assert len(seen) == 2


async def test_promise_11_a_reply_of_a_hundred_megabytes_is_given_up_at_the_limit_without_holding_it():
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"content-length: %d\r\n\r\n" % (100 * 1024 * 1024))
        for _ in range(1600):
            writer.write(b"x" * 65_536)
            await writer.drain()
            sent += 65_536

    tracemalloc.start()
    try:
        async with listening(talk) as url:
            failed = await failure(url, seconds=30.0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert failed.cause is InfraCause.PROTOCOL
    assert f"expected at most {MAX_REPLY_BYTES} bytes, got more" in failed.message
    assert sent < 40 * 1024 * 1024
    assert most < 5 * MAX_REPLY_BYTES


async def test_a_refused_connection_is_a_connect_failure_with_a_hint():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    caught = await failure(f"http://127.0.0.1:{port}")
    assert caught.cause is InfraCause.CONNECT
    assert caught.hint == "is the server running, and is the address right?"


async def test_a_body_of_exactly_the_limit_is_read():
    async with serving(HEAD + b"content-length: %d\r\n\r\n" % MAX_REPLY_BYTES + b" " * MAX_REPLY_BYTES) as (url, _):
        assert len(await asked(url)) == MAX_REPLY_BYTES


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (httpx.ConnectError("refused"), InfraCause.CONNECT),
        (httpx.ReadError("lost"), InfraCause.RESET),
        (httpx.WriteError("lost"), InfraCause.RESET),
        (httpx.RemoteProtocolError("Server disconnected"), InfraCause.RESET),
        (httpx.ReadTimeout("slow"), InfraCause.TIMEOUT),
        (httpx.ConnectTimeout("slow"), InfraCause.TIMEOUT),
        (httpx.UnsupportedProtocol("gopher"), InfraCause.PROTOCOL),
    ],
)
async def test_failures_of_another_transport_keep_their_meaning(error, cause):
    def handler(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(EnvFailure) as caught:
        await exchange(build_http(transport=httpx.MockTransport(handler)), httpx.Request("GET", "http://toy/"), seconds=1)
    assert caught.value.cause is cause


async def test_too_many_open_files_are_named_in_the_hint():
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no socket") from OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(EnvFailure) as caught:
        await exchange(build_http(transport=httpx.MockTransport(handler)), httpx.Request("GET", "http://toy/"), seconds=1)
    assert (caught.value.cause, caught.value.hint) == (InfraCause.CONNECT, "allow more open files: ulimit -n 8192")


async def test_neither_cookies_nor_proxies_are_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with serving(HEAD + b"set-cookie: a=b\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}") as (url, seen), build_http() as http:
        for _ in range(2):
            await exchange(http, httpx.Request("POST", url, content=b"{}"), seconds=5)
    assert len(seen) == 2
    assert b"cookie" not in seen[1].lower()


async def test_a_client_is_made_without_reading_the_certificates_of_the_system(monkeypatch):
    def read(context: ssl.SSLContext, *places: object) -> None:
        raise AssertionError("a tenth of a second for nothing")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", read)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", read)
    async with serving(HEAD + b"content-length: 2\r\n\r\n{}") as (url, _), build_http() as http:
        assert (await exchange(http, httpx.Request("GET", url), seconds=5)).body == b"{}"


async def test_a_call_after_closing_the_client_is_our_mistake():
    http = build_http()
    await http.aclose()
    with pytest.raises(AssertionError, match="after the client was closed"):
        await exchange(http, httpx.Request("GET", "http://127.0.0.1:9"), seconds=1)
