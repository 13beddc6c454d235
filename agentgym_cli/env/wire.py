"""One HTTP call: a deadline, a bounded reply, and a cause for every way it can fail. The only owner of httpx and aiohttp; knows no dialect."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from agentgym_cli.env.contract import EnvFailure, InfraCause

MAX_REPLY_BYTES = 8 * 1024 * 1024
KEEPALIVE_SECONDS = 3.0
"""Below uvicorn's 5 s, so that an idle connection is dropped by us and not under a request that cannot be sent twice."""


@dataclass(frozen=True, slots=True)
class RawReply:
    """What came back."""

    status: int
    body: bytes


class DirectClient(httpx.AsyncClient):
    """Hands requests to its transport as they are: no redirect, cookie, authentication or proxy, and half the time of a call."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        super().__init__(transport=transport, timeout=None, trust_env=False, follow_redirects=False)
        self._direct = transport

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: object) -> httpx.Response:
        """One exchange; ``stream`` leaves the body to be read. No other option has an effect."""
        assert not self.is_closed, "a call after the client was closed"
        response = await self._direct.handle_async_request(request)
        response.request = request
        if not stream:
            await response.aread()
        return response


def build_http(*, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """An HTTP client for thousands of calls in flight: httpx's interface over aiohttp's connections.

    No variable of the environment is read, no redirect followed, no cookie kept, no call re-sent; nothing but a call's deadline limits it.
    Connections are made inside the running loop, on first use.
    """
    return DirectClient(transport or AiohttpTransport(client=_connections, trust_env=False))


def _connections() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False)


async def exchange(http: httpx.AsyncClient, request: httpx.Request, *, seconds: float) -> RawReply:
    """Send ``request`` once and read its reply.

    Args:
        seconds: deadline of the whole exchange, connecting and reading included.

    Raises:
        EnvFailure: CONNECT, TIMEOUT, RESET, or PROTOCOL for what is not HTTP, is encoded, or is larger than MAX_REPLY_BYTES.
    """
    where = f"{request.method} {request.url}"
    try:
        async with asyncio.timeout(seconds):
            return await _send(http, request, where)
    except TimeoutError as err:
        raise EnvFailure(InfraCause.TIMEOUT, f"{where}: expected a reply within {seconds:g} s, got none") from err
    except (httpx.TransportError, aiohttp.ClientError) as err:
        raise _failure(where, err) from err


def _failure(where: str, err: Exception) -> EnvFailure:
    """Cause by aiohttp's class where there is one: httpx-aiohttp calls a refused and a lost connection alike a ConnectTimeout."""
    if isinstance(err, httpx.ConnectError) or isinstance(err.__cause__, aiohttp.ClientConnectorError):
        full = getattr(err.__cause__, "errno", None) in (errno.EMFILE, errno.ENFILE)
        hint = "allow more open files: ulimit -n 8192" if full else "is the server running, and is the address right?"
        return EnvFailure(InfraCause.CONNECT, f"{where}: expected a server, got {_said(err)}", hint)
    lost = isinstance(err.__cause__, aiohttp.ClientConnectionError)
    if isinstance(err, httpx.TimeoutException) and not lost:
        return EnvFailure(InfraCause.TIMEOUT, f"{where}: expected a reply, got {_said(err)}")
    if lost or isinstance(err, httpx.NetworkError | httpx.RemoteProtocolError):
        return EnvFailure(InfraCause.RESET, f"{where}: expected a whole reply, got a lost connection ({_said(err)})")
    return EnvFailure(InfraCause.PROTOCOL, f"{where}: expected HTTP, got {_said(err)}")


async def _send(http: httpx.AsyncClient, request: httpx.Request, where: str) -> RawReply:
    response = await http.send(request, stream=True, follow_redirects=False)
    try:
        for name, value in response.headers.raw:
            if name.lower() == b"content-encoding" and value != b"identity":
                raise EnvFailure(InfraCause.PROTOCOL, f"{where}: expected a body without encoding, got {value[:80]!r}")
        return RawReply(response.status_code, await _bounded_body(response, where))
    finally:
        await response.aclose()


async def _bounded_body(response: httpx.Response, where: str) -> bytes:
    body = bytearray()
    # A transport without a network gives a reply that is already read, and cannot be read in pieces.
    async for chunk in response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            raise EnvFailure(InfraCause.PROTOCOL, f"{where}: expected at most {MAX_REPLY_BYTES} bytes, got more")
    return bytes(body)


def _said(err: Exception) -> str:
    return f"{type(err.__cause__ or err).__name__}: {str(err)[:200]!r}"
