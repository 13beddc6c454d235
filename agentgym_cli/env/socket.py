"""Sessions that are WebSockets: a frame asked, a frame answered, one at a time, with a deadline and a cause for every way it can fail."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping

import aiohttp
import httpx

from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.pointer import Json
from agentgym_cli.env.reply import SessionId, shortened
from agentgym_cli.env.socket_schema import SocketSpec
from agentgym_cli.env.wire import MAX_REPLY_BYTES, DirectClient, RawReply, encoded, unreachable

_GOODBYE_SECONDS = 1.0
"""How long a connection that we end may take to end."""


class Sockets:
    """The sessions of one server by number, each a connection of its own."""

    def __init__(self, http: httpx.AsyncClient, spec: SocketSpec, url: str, headers: httpx.Headers) -> None:
        assert isinstance(http, DirectClient), "an HTTP client made by build_http"
        self._http = http
        self._spec = spec
        self._url = url + spec.path
        self._headers = dict(headers)
        self._numbers = itertools.count()
        self._live: dict[SessionId, _Connection] = {}

    async def open(self, *, seconds: float) -> SessionId:
        """Connect; a number that this server never had before. Raises EnvFailure."""
        connection = await _connected(self._http, self._url, self._headers, seconds=seconds)
        number = next(self._numbers)
        self._live[number] = connection
        return number

    async def ask(self, session: Json, call: str, fields: Mapping[str, Json], *, seconds: float) -> RawReply:
        """Send one frame and take the next, within ``seconds``.

        Raises:
            EnvFailure: TIMEOUT, RESET for a connection that ended, PROTOCOL for what is no text frame of at most MAX_REPLY_BYTES.
                After each of them the connection is of no more use.
        """
        connection = self._live.get(session) if isinstance(session, int | str) else None
        if connection is None:
            raise EnvFailure(
                InfraCause.RESET, f"WebSocket {self._url}, session {shortened(session)}: expected a connection, got none: closed, or never made"
            )
        return await connection.ask(self._frame(call, fields), seconds=seconds)

    async def close(self, session: SessionId, call: str | None, *, seconds: float) -> None:
        """Send ``call``, wait for the server to end the connection, and end it in any case. Nothing where there is no such session."""
        connection = self._live.pop(session, None)
        if connection is not None:
            await connection.close(None if call is None else self._frame(call, {}), seconds=seconds)

    def _frame(self, call: str, fields: Mapping[str, Json]) -> bytes:
        kind = {self._spec.type_field: call.removeprefix("SEND ")}
        if self._spec.data_field is None:
            return encoded({**fields, **kind})
        return encoded({**kind, self._spec.data_field: dict(fields)} if fields else kind)


class _Connection:
    """One WebSocket. It is read all the time, so that pings are answered while a policy thinks and the end is seen when it comes."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, url: str) -> None:
        self._socket = socket
        self._where = f"WebSocket {url}"
        self._next = asyncio.ensure_future(socket.receive())
        self._one_call = asyncio.Lock()
        self._in_step = True
        """Every frame sent has been answered, and nothing else was said."""

    async def ask(self, frame: bytes, *, seconds: float) -> RawReply:
        async with self._one_call:
            if not self._in_step:
                raise EnvFailure(InfraCause.RESET, f"{self._where}: expected an open connection, got one that an earlier failure has ended")
            unasked = self._next.done()
            self._in_step = False
            message = await self._next if unasked else await self._answer(frame, seconds)
            body = self._body(message)
            self._next = asyncio.ensure_future(self._socket.receive())
            self._in_step = not unasked
            return RawReply(200, body, unasked)

    async def close(self, frame: bytes | None, *, seconds: float) -> None:
        try:
            if frame is not None and self._in_step and not self._next.done():
                message = await self._answer(frame, seconds)
                if message.type not in _ENDS:
                    raise EnvFailure(InfraCause.REPORTED_ERROR, f"{self._where}: expected the connection to be closed, got {shortened(message.data)}")
        finally:
            self._in_step = False
            await self._end()

    async def _answer(self, frame: bytes, seconds: float) -> aiohttp.WSMessage:
        try:
            async with asyncio.timeout(seconds):
                await self._send(frame)
                return await asyncio.shield(self._next)
        except TimeoutError as err:
            raise EnvFailure(InfraCause.TIMEOUT, f"{self._where}: expected a frame within {seconds:g} s, got none") from err

    async def _send(self, frame: bytes) -> None:
        try:
            await self._socket.send_str(frame.decode())
        except (aiohttp.ClientConnectionError, ConnectionError):
            return  # What the server said before it went away is still to be read.

    def _body(self, message: aiohttp.WSMessage) -> bytes:
        if message.type is aiohttp.WSMsgType.TEXT:
            return str(message.data).encode()
        if message.type in _ENDS:
            code, reason = self._socket.close_code, shortened(message.extra or "")
            raise EnvFailure(InfraCause.RESET, f"{self._where}: expected a frame, got the end of the connection (code {code}, {reason})")
        error = message.data
        if isinstance(error, aiohttp.WebSocketError) and error.code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            raise EnvFailure(InfraCause.PROTOCOL, f"{self._where}: expected at most {MAX_REPLY_BYTES} bytes, got more")
        if isinstance(error, OSError):
            raise EnvFailure(InfraCause.RESET, f"{self._where}: expected a frame, got a lost connection ({shortened(error)})")
        raise EnvFailure(InfraCause.PROTOCOL, f"{self._where}: expected a text frame, got {message.type.name} {shortened(error)}")

    async def _end(self) -> None:
        """End the connection, whatever the server does meanwhile."""
        self._next.cancel()
        await asyncio.wait({self._next})
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._socket.close()
        except TimeoutError:
            return


_ENDS = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED)


async def _connected(http: DirectClient, url: str, headers: Mapping[str, str], *, seconds: float) -> _Connection:
    where = f"WebSocket {url}"
    try:
        async with asyncio.timeout(seconds):
            socket = await http.sockets().ws_connect(url, headers=headers, max_msg_size=MAX_REPLY_BYTES + 1)
    except TimeoutError as err:
        raise EnvFailure(InfraCause.TIMEOUT, f"{where}: expected a connection within {seconds:g} s, got none") from err
    except aiohttp.WSServerHandshakeError as err:
        cause = {4: InfraCause.SERVER_4XX, 5: InfraCause.SERVER_5XX}.get(err.status // 100, InfraCause.PROTOCOL)
        raise EnvFailure(cause, f"{where}: expected a WebSocket, got HTTP {err.status}: {shortened(err.message)}") from err
    except aiohttp.ClientConnectorError as err:
        raise unreachable(where, err) from err
    except (aiohttp.ClientConnectionError, ConnectionError) as err:
        raise EnvFailure(InfraCause.RESET, f"{where}: expected a WebSocket, got a lost connection ({shortened(err)})") from err
    except aiohttp.ClientError as err:
        raise EnvFailure(InfraCause.PROTOCOL, f"{where}: expected a WebSocket, got {shortened(err)}") from err
    return _Connection(socket, url)
