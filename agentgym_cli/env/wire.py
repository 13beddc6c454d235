"""One HTTP call: a deadline, a bounded reply, and a cause for every way it can fail. It owns httpx and aiohttp; knows no dialect."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType

import aiohttp
import httpx
import orjson
from httpx_aiohttp import AiohttpTransport

from agentgym_cli.env.connections import BodyTooLong, ConnectionBroken, ConnectionPool, ConnectionRefused, NotHttp, Origin
from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.pointer import Json

MAX_REPLY_BYTES = 8 * 1024 * 1024
KEEPALIVE_SECONDS = 3.0
"""Below uvicorn's 5 s, so that an idle connection is dropped by us and not under a request that cannot be sent twice."""


@dataclass(frozen=True, slots=True)
class RawReply:
    """What came back."""

    status: int
    """HTTP status; 200 for a frame of a WebSocket."""
    body: bytes
    unasked: bool = False
    """The server said it before it was asked; a frame of a WebSocket only."""
    retry_after: str | None = None
    """The header of that name of a reply that is an error, None where it has none."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where calls go and what every one of them says: worked out once, since most of the time of a quick call is its request's making."""

    method: str
    url: httpx.URL
    headers: httpx.Headers
    origin: Origin = field(init=False)
    head: bytes = field(init=False)
    """Request line and headers, up to the length of the body."""

    def __post_init__(self) -> None:
        tls = self.url.scheme == "https"
        object.__setattr__(self, "origin", Origin(self.url.host, self.url.port or (443 if tls else 80), tls))
        object.__setattr__(self, "head", _head(self.method, self.url, self.headers))


def _head(method: str, url: httpx.URL, headers: httpx.Headers) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (method.encode(), url.raw_path), b"host: " + url.netloc, *(name + b": " + value for name, value in headers.raw)]
    assert not any(b"\r" in line or b"\n" in line for line in lines), "a header of one line"
    return b"\r\n".join([*lines, b"content-length: "])


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a target."""

    target: Target
    content: bytes | None = None

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.target.method} {self.target.url}"

    def request(self) -> httpx.Request:
        """The same for a transport without a network."""
        return httpx.Request(self.target.method, self.target.url, headers=self.target.headers, content=self.content)


class DirectClient(httpx.AsyncClient):
    """Hands requests to its transport as they are: no redirect, cookie, authentication or proxy, and half the time of a call."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        super().__init__(transport=transport, timeout=None, trust_env=False, follow_redirects=False)
        self.transport = transport
        self._pool = ConnectionPool(idle_seconds=KEEPALIVE_SECONDS, max_body_bytes=MAX_REPLY_BYTES)
        self._sockets: aiohttp.ClientSession | None = None

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: object) -> httpx.Response:
        """One exchange; ``stream`` leaves the body to be read. No other option has an effect."""
        assert not self.is_closed, "a call after the client was closed"
        response = await self.transport.handle_async_request(request)
        response.request = request
        if not stream:
            await response.aread()
        return response

    def network(self) -> ConnectionPool | None:
        """Connections for a call that needs no more than them; None over a transport without a network."""
        assert not self.is_closed, "a call after the client was closed"
        return self._pool if isinstance(self.transport, AiohttpTransport) else None

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.close()
        await super().aclose()

    async def __aexit__(
        self, exc_type: type[BaseException] | None = None, exc_value: BaseException | None = None, traceback: TracebackType | None = None
    ) -> None:
        await self._pool.close()
        await super().__aexit__(exc_type, exc_value, traceback)

    def sockets(self) -> aiohttp.ClientSession:
        """Where WebSockets are opened: over the same connections, which end with this client. A redirect is refused here too."""
        if self._sockets is None:
            assert isinstance(self.transport, AiohttpTransport), "a WebSocket needs a network"
            if not isinstance(self.transport.client, aiohttp.ClientSession):
                self.transport.client = self.transport.get_client()
            connections = self.transport.client
            self._sockets = aiohttp.ClientSession(
                connector=connections.connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(),
                trace_configs=[_refusing_redirects()],
                trust_env=False,
            )
        return self._sockets


def build_http(*, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """An HTTP client for thousands of calls in flight: httpx's interface over aiohttp's connections.

    No variable of the environment is read, no redirect followed, no cookie kept, no call re-sent; nothing but a call's deadline limits it.
    Connections are made inside the running loop, on first use.
    """
    return DirectClient(transport or AiohttpTransport(client=_connections, trust_env=False, verify=_trusting_nobody()))


def _trusting_nobody() -> ssl.SSLContext:
    """For the transport, which would read every certificate of the system for a context that it does not use: ``_connections`` has its own."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def another_http(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client that shares no connection with ``http``; beside one over a transport without connections, one over the same transport."""
    if isinstance(http, DirectClient) and not isinstance(http.transport, AiohttpTransport):
        return build_http(transport=http.transport)
    return build_http()


def _connections() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
    session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(), trust_env=False)
    # A GET that is lost on a connection which served before would be sent again, and its loss never seen; there is no public switch.
    session._retry_connection = False
    return session


def _refusing_redirects() -> aiohttp.TraceConfig:
    """A WebSocket is opened by a GET, of which aiohttp would follow the redirect."""

    async def refuse(session: aiohttp.ClientSession, context: object, redirect: aiohttp.TraceRequestRedirectParams) -> None:
        status, target = redirect.response.status, redirect.response.headers.get("location", "")
        raise EnvFailure(InfraCause.PROTOCOL, f"WebSocket {redirect.url}: expected a WebSocket, got a redirect ({status}) to {target[:200]!r}")

    config = aiohttp.TraceConfig()
    config.on_request_redirect.append(refuse)
    return config


def encoded(fields: Mapping[str, Json]) -> bytes:
    """A request's fields as JSON."""
    try:
        return orjson.dumps(fields)
    except TypeError:
        return orjson.dumps(_speakable(dict(fields)))


def _speakable(value: Json) -> Json:
    """A lone surrogate in a model's text has no UTF-8; the world gets a question mark for it."""
    if isinstance(value, dict):
        return {key: _speakable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_speakable(inner) for inner in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


async def exchange(http: httpx.AsyncClient, request: httpx.Request | Call, *, seconds: float) -> RawReply:
    """Send ``request`` once and read its reply.

    Args:
        seconds: deadline of the whole exchange, connecting and reading included.

    Raises:
        EnvFailure: CONNECT, TIMEOUT, RESET, or PROTOCOL for what is not HTTP, is encoded, or is larger than MAX_REPLY_BYTES.
    """
    try:
        async with asyncio.timeout(seconds):
            network = http.network() if isinstance(request, Call) and isinstance(http, DirectClient) else None
            if network is not None and isinstance(request, Call):
                return await _sent(network, request)
            return await _send(http, request.request() if isinstance(request, Call) else request, _where(request))
    except TimeoutError as err:
        raise EnvFailure(InfraCause.TIMEOUT, f"{_where(request)}: expected a reply within {seconds:g} s, got none") from err
    except (httpx.TransportError, aiohttp.ClientError) as err:
        raise _failure(_where(request), err) from err


def _where(request: httpx.Request | Call) -> str:
    return request.where if isinstance(request, Call) else f"{request.method} {request.url}"


async def _sent(pool: ConnectionPool, call: Call) -> RawReply:
    """The exchange without httpx in between, which would take most of its time."""
    content = call.content or b""
    try:
        answer = await pool.ask(call.target.origin, b"%b%d\r\n\r\n" % (call.target.head, len(content)), content)
    except ConnectionRefused as err:
        raise unreachable(call.where, err.__cause__ or err) from err
    except ConnectionBroken as err:
        raise _lost(call.where, err) from err
    except BodyTooLong as err:
        raise _too_long(call.where) from err
    except NotHttp as err:
        raise EnvFailure(InfraCause.PROTOCOL, f"{call.where}: expected HTTP, got {_said(err)}") from err
    encoding = answer.header(b"content-encoding")
    if encoding not in (None, "identity"):
        raise _encoded(call.where, encoding)
    return RawReply(answer.status, bytes(answer.body), retry_after=answer.header(b"retry-after") if answer.status >= 400 else None)


def _encoded(where: str, encoding: object) -> EnvFailure:
    return EnvFailure(InfraCause.PROTOCOL, f"{where}: expected a body without encoding, got {encoding!r:.80}")


def _too_long(where: str) -> EnvFailure:
    return EnvFailure(InfraCause.PROTOCOL, f"{where}: expected at most {MAX_REPLY_BYTES} bytes, got more")


def _failure(where: str, err: Exception) -> EnvFailure:
    """Cause by aiohttp's class where there is one: httpx-aiohttp calls a refused and a lost connection alike a ConnectTimeout."""
    below = err if isinstance(err, aiohttp.ClientError) else err.__cause__
    if isinstance(err, httpx.ConnectError) or isinstance(below, aiohttp.ClientConnectorError):
        return unreachable(where, err)
    lost = isinstance(below, aiohttp.ClientConnectionError | aiohttp.ClientPayloadError)
    if isinstance(err, httpx.TimeoutException) and not lost:
        return EnvFailure(InfraCause.TIMEOUT, f"{where}: expected a reply, got {_said(err)}")
    if lost or isinstance(err, httpx.NetworkError | httpx.RemoteProtocolError):
        return _lost(where, err)
    return EnvFailure(InfraCause.PROTOCOL, f"{where}: expected HTTP, got {_said(err)}")


def _lost(where: str, err: Exception) -> EnvFailure:
    return EnvFailure(InfraCause.RESET, f"{where}: expected a whole reply, got a lost connection ({_said(err)})")


def unreachable(where: str, err: BaseException) -> EnvFailure:
    """No connection could be made, TLS included."""
    full = getattr(err.__cause__ or err, "errno", None) in (errno.EMFILE, errno.ENFILE)
    hint = "allow more open files: ulimit -n 8192" if full else "is the server running, and is the address right?"
    wanted = "TLS and a certificate that is known" if isinstance(err.__cause__ or err, aiohttp.ClientSSLError | ssl.SSLError) else "a server"
    return EnvFailure(InfraCause.CONNECT, f"{where}: expected {wanted}, got {_said(err)}", hint)


async def _send(http: httpx.AsyncClient, request: httpx.Request, where: str) -> RawReply:
    response = await http.send(request, stream=True, follow_redirects=False)
    try:
        for name, value in response.headers.raw:
            if name.lower() == b"content-encoding" and value != b"identity":
                raise _encoded(where, value.decode("latin-1"))
        status = response.status_code
        return RawReply(status, await _bounded_body(response, where), retry_after=response.headers.get("retry-after") if status >= 400 else None)
    finally:
        await response.aclose()


async def _bounded_body(response: httpx.Response, where: str) -> bytes:
    body = bytearray()
    # A transport without a network gives a reply that is already read, and cannot be read in pieces.
    async for chunk in response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise _too_long(where)
    return bytes(body)


def _said(err: BaseException) -> str:
    return f"{type(err.__cause__ or err).__name__}: {str(err)[:200]!r}"
