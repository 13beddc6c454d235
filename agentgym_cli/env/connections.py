"""Kept HTTP/1.1 connections, one call at a time on each, and no more than a turn needs, since a turn is two calls. It owns httptools."""

from __future__ import annotations

import asyncio
import socket
import ssl
from asyncio.trsock import TransportSocket
from collections import deque
from dataclasses import dataclass, field
from typing import cast

import httptools

MAX_HEAD_BYTES = 64 * 1024
_LONG_HEAD = f"more than {MAX_HEAD_BYTES} bytes of headers"
_QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)
"""Linux only, and it holds for the next few segments only."""
_CLOSING_TURNS = 100
"""Turns of the loop after which a socket that was given up is closed; one is enough as a rule."""
_WIRE_SHARE = 8
"""A reply may take this many times its largest body on the wire: chunks of one byte take six."""


class ConnectionRefused(Exception):
    """No connection could be made; its cause says why."""


class ConnectionBroken(Exception):
    """The connection ended before the reply did."""


class NotHttp(Exception):
    """What came is no reply of HTTP/1.1 that can be taken."""


class BodyTooLong(Exception):
    """The reply's body is longer than is read."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where connections go."""

    host: str
    port: int
    tls: bool


@dataclass(slots=True)
class Answer:
    """One reply as it comes."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Names in lower case."""
    body: bytes | bytearray = b""

    def header(self, name: bytes) -> str | None:
        """The first of that name."""
        return next((value.decode("latin-1") for known, value in self.headers if known == name), None)


class Connection(asyncio.Protocol):
    """One connection. A reply that is too long, is no HTTP or comes unasked ends it."""

    def __init__(self, pool: ConnectionPool) -> None:
        self.since = 0.0
        """When it became idle, on the loop's clock."""
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._socket: TransportSocket | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._answer = Answer()
        self._headed = False
        self._received = 0
        self._head_bytes = 0

    @property
    def usable(self) -> bool:
        """It can carry another call."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, head: bytes, content: bytes) -> Answer:
        """Send one request and wait for its reply. Raises ConnectionBroken, NotHttp, BodyTooLong."""
        assert self._transport is not None and self._waiting is None, "one call at a time"
        self._waiting = asyncio.get_running_loop().create_future()
        self._received = 0
        self._transport.write(head + content)
        self._acknowledge_at_once()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def close(self) -> None:
        """End it at once, with whatever is under way on it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._socket = transport.get_extra_info("socket")
        self._pool.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the other side or ours ended it. A body without a length ends so, too."""
        self._pool.open.discard(self)
        if exc is None and self._headed and not self._has_length():
            self._done()
        self._fail(ConnectionBroken(f"{'within' if self._received else 'before'} a reply: {exc or 'closed'}"))

    def data_received(self, data: bytes) -> None:
        """asyncio: some of a reply, or of nothing that was asked for."""
        if not self._is_asked():
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as err:
            self._fail(NotHttp(f"{type(err).__name__}: {err}"[:200]))
        if self._received > (_WIRE_SHARE * self._pool.max_body_bytes if self._headed else MAX_HEAD_BYTES):
            self._fail(BodyTooLong() if self._headed else NotHttp(_LONG_HEAD))

    def on_message_begin(self) -> None:
        """httptools: a reply begins; one behind the reply that was asked for is nobody's."""
        if not self._is_asked():
            self.close()
        self._answer, self._headed, self._head_bytes = Answer(), False, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: one header, or one behind the body, which says nothing to us."""
        if self._headed:
            return
        self._answer.headers.append((name.lower(), value))
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._fail(NotHttp(_LONG_HEAD))

    def on_headers_complete(self) -> None:
        """httptools: the body follows."""
        self._answer.status = self._parser.get_status_code()
        self._headed = True

    def on_body(self, body: bytes) -> None:
        """httptools: some of the body."""
        if not self._answer.body:
            self._answer.body = body
        elif isinstance(self._answer.body, bytearray):
            self._answer.body += body
        else:
            self._answer.body = bytearray(self._answer.body + body)
        if len(self._answer.body) > self._pool.max_body_bytes:
            self._fail(BodyTooLong())

    def on_message_complete(self) -> None:
        """httptools: the reply is whole. One that only says that the reply will come (1xx) is not it."""
        if self._answer.status >= 200:
            self._done()
        self._headed = False

    def _acknowledge_at_once(self) -> None:
        """A server that sends head and body apart, and waits for one to be acknowledged before the other, would else take 40 ms a call."""
        if _QUICKACK is not None and self._socket is not None:
            self._socket.setsockopt(socket.IPPROTO_TCP, _QUICKACK, 1)

    def _is_asked(self) -> bool:
        return self._waiting is not None and not self._waiting.done()

    def _has_length(self) -> bool:
        return any(name in (b"content-length", b"transfer-encoding") for name, _ in self._answer.headers)

    def _done(self) -> None:
        if self._waiting is None or self._waiting.done():
            return
        self._waiting.set_result(self._answer)
        if not self._parser.should_keep_alive():
            self.close()

    def _fail(self, failure: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(failure)
        self.close()


class ConnectionPool:
    """Connections by where they go; the one that was used last is used next, and one that idled too long not at all.

    Args:
        idle_seconds: how long a connection is kept for a next call.
        max_body_bytes: of a reply.
    """

    def __init__(self, *, idle_seconds: float, max_body_bytes: int) -> None:
        self.max_body_bytes = max_body_bytes
        self.open: set[Connection] = set()
        self._idle_seconds = idle_seconds
        self._idle: dict[Origin, deque[Connection]] = {}
        self._tls: ssl.SSLContext | None = None

    async def ask(self, origin: Origin, head: bytes, content: bytes) -> Answer:
        """One call, sent once. Raises ConnectionRefused, ConnectionBroken, NotHttp, BodyTooLong. A call that is given up ends its connection."""
        connection = self._kept(origin) or await self._connected(origin)
        answer = None
        try:
            answer = await connection.ask(head, content)
        finally:
            if answer is None:
                connection.close()
        if connection.usable:
            connection.since = asyncio.get_running_loop().time()
            self._idle.setdefault(origin, deque()).append(connection)
        return answer

    async def close(self) -> None:
        """End all connections, those with a call under way too, and return once their sockets are closed."""
        self._idle.clear()
        for connection in tuple(self.open):
            connection.close()
        for _ in range(_CLOSING_TURNS):
            if not self.open:
                break
            await asyncio.sleep(0)

    def _kept(self, origin: Origin) -> Connection | None:
        idle = self._idle.get(origin)
        if not idle:
            return None
        oldest = asyncio.get_running_loop().time() - self._idle_seconds
        while idle and idle[0].since < oldest:
            idle.popleft().close()
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    async def _connected(self, origin: Origin) -> Connection:
        loop, tls = asyncio.get_running_loop(), self._context() if origin.tls else None
        try:
            _, connection = await loop.create_connection(lambda: Connection(self), origin.host, origin.port, ssl=tls)
        except OSError as err:
            raise ConnectionRefused(str(err)) from err
        return connection

    def _context(self) -> ssl.SSLContext:
        """The system's certificates, read once and only where TLS is spoken."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls
