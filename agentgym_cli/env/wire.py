"""One HTTP call: a deadline, a bounded reply, and a cause for every way it can fail. It owns httpx and aiohttp; knows no dialect."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
import httpx
import orjson
from httpx_aiohttp import AiohttpTransport
from multidict import CIMultiDict
from yarl import URL

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
    sent_url: URL = field(init=False)
    sent_headers: CIMultiDict[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sent_url", URL(str(self.url)))
        object.__setattr__(self, "sent_headers", CIMultiDict(self.headers.multi_items()))


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
        self._sockets: aiohttp.ClientSession | None = None

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: object) -> httpx.Response:
        """One exchange; ``stream`` leaves the body to be read. No other option has an effect."""
        assert not self.is_closed, "a call after the client was closed"
        response = await self.transport.handle_async_request(request)
        response.request = request
        if not stream:
            await response.aread()
        return response

    def network(self) -> aiohttp.ClientSession | None:
        """The connections underneath, for a call that needs no more than them; None over a transport without a network."""
        assert not self.is_closed, "a call after the client was closed"
        if not isinstance(self.transport, AiohttpTransport):
            return None
        if not isinstance(self.transport.client, aiohttp.ClientSession):
            self.transport.client = self.transport.get_client()
        return self.transport.client

    def sockets(self) -> aiohttp.ClientSession:
        """Where WebSockets are opened: over the same connections, which end with this client. A redirect is refused here too."""
        if self._sockets is None:
            connections = self.network()
            assert connections is not None, "a WebSocket needs a network"
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


async def _sent(network: aiohttp.ClientSession, call: Call) -> RawReply:
    """The exchange without httpx in between, which would take more than half of its time."""
    target = call.target
    async with network.request(
        target.method, target.sent_url, headers=target.sent_headers, data=call.content or None, allow_redirects=False, auto_decompress=False
    ) as response:
        for encoding in response.headers.getall("content-encoding", ()):
            if encoding != "identity":
                raise _encoded(call.where, encoding)
        body = await _bounded(response.content, call)
        return RawReply(response.status, body, retry_after=response.headers.get("retry-after") if response.status >= 400 else None)


async def _bounded(content: aiohttp.StreamReader, call: Call) -> bytes:
    body = await content.readany()
    if content.at_eof() and len(body) <= MAX_REPLY_BYTES:
        return body
    whole = bytearray(body)
    while len(whole) <= MAX_REPLY_BYTES:
        piece = await content.readany()
        if not piece:
            return bytes(whole)
        whole += piece
    raise _too_long(call.where)


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
        return EnvFailure(InfraCause.RESET, f"{where}: expected a whole reply, got a lost connection ({_said(err)})")
    return EnvFailure(InfraCause.PROTOCOL, f"{where}: expected HTTP, got {_said(err)}")


def unreachable(where: str, err: Exception) -> EnvFailure:
    """No connection could be made, TLS included."""
    full = getattr(err.__cause__ or err, "errno", None) in (errno.EMFILE, errno.ENFILE)
    hint = "allow more open files: ulimit -n 8192" if full else "is the server running, and is the address right?"
    wanted = "TLS and a certificate that is known" if isinstance(err.__cause__ or err, aiohttp.ClientSSLError) else "a server"
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


def _said(err: Exception) -> str:
    return f"{type(err.__cause__ or err).__name__}: {str(err)[:200]!r}"
