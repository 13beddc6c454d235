"""Where the workers of an engine hand in what happened: one writer beside the driver, which answers once a message is on the disk.

One JSON object a line over TCP, in both directions. A worker begins with the launch's secret; an answer repeats the number of its message.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson

from agentgym_cli.errors import StoreError

LONGEST_LINE = 64 << 20
"""Bytes of one message: an attempt with all its tokens and texts."""
Message = Mapping[str, Any]
Handle = Callable[[Message], Mapping[str, Any]]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a desk is, and what has to be said there first."""

    host: str
    port: int
    secret: str


@asynccontextmanager
async def open_desk(handle: Handle, *, host: str = "127.0.0.1", broken: Callable[[StoreError], None]) -> AsyncIterator[Address]:
    """Serve a desk for as long as the block runs.

    Args:
        handle: called with each message in turn, never with two at once; what it returns is the answer.
        host: address to listen on; workers on other machines need one that they reach.
        broken: hears of a record that could not be written, of which the worker is told as well, and of any other failure of ``handle``.
    """
    secret = secrets.token_urlsafe(24)
    once = _Once(handle)
    tasks: set[asyncio.Task[None]] = set()

    def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_serve(reader, writer, secret=secret, handle=once, broken=broken))
        tasks.add(task)
        task.add_done_callback(over)

    def over(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        if not task.cancelled() and (err := task.exception()) is not None:
            log.error("the writer of records failed", exc_info=err)
            broken(StoreError(f"records: expected to take in what a worker handed in, got {type(err).__name__}: {str(err)[:500]}"))

    server = await asyncio.start_server(welcome, host, 0, limit=LONGEST_LINE)
    try:
        yield Address(host=host, port=server.sockets[0].getsockname()[1], secret=secret)
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Once:
    """Hands each message on once: one that is said again, since its answer was lost with a connection, gets the same answer."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._last: dict[str, tuple[int, Mapping[str, Any]]] = {}

    def __call__(self, message: Message) -> Mapping[str, Any]:
        visitor, number = str(message["visitor"]), int(message["number"])
        last, answer = self._last.get(visitor, (0, {}))
        if number > last:
            answer = self._handle(message)
            self._last[visitor] = number, answer
        return answer


async def _serve(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, secret: str, handle: Handle, broken: Callable[[StoreError], None]
) -> None:
    try:
        if not secrets.compare_digest((await _line(reader)).strip(), secret.encode()):
            return
        while (message := _message(await _line(reader))) is not None:
            try:
                answer = dict(handle(message))
            except StoreError as trouble:
                broken(trouble)
                answer = {"trouble": trouble.message}
            writer.write(orjson.dumps({"number": message["number"], **answer}) + b"\n")
            with suppress(ConnectionError):  # the next line says that it ended
                await writer.drain()
    finally:
        writer.close()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; nothing where the connection ended."""
    try:
        return await reader.readline()
    except (ConnectionError, ValueError) as err:  # ValueError: a line without an end
        log.warning("a worker's connection ended: %s: %s", type(err).__name__, err)
        return b""


def _message(line: bytes) -> Message | None:
    """A message, None where there is none."""
    try:
        message: Message | None = orjson.loads(line) if line else None
    except ValueError as err:
        log.warning("a worker's connection ended: %s: %s", type(err).__name__, err)
        return None
    return message


class Visitor:
    """A worker's side, on its event loop. Messages are answered in turn; one whose connection is lost is sent again, and counts once."""

    def __init__(self, address: Address, *, patience: float = 120.0) -> None:
        """``patience``: seconds for which a desk that does not answer is asked again."""
        self._address = address
        self._patience = patience
        self._name = uuid4().hex
        self._one = asyncio.Lock()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._number = 0

    async def say(self, do: str, **fields: Any) -> dict[str, Any]:
        """Hand one message in and return the answer.

        Raises:
            StoreError: the desk could not write it, or there is no desk.
        """
        async with self._one:
            self._number += 1
            line = orjson.dumps({"visitor": self._name, "number": self._number, "do": do, **fields}) + b"\n"
            answer = await self._answered(line)
        if "trouble" in answer:
            raise StoreError(str(answer["trouble"]))
        return answer

    async def close(self) -> None:
        """End the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _answered(self, line: bytes) -> dict[str, Any]:
        clock = asyncio.get_running_loop().time
        until, pause = clock() + self._patience, 0.05
        while True:
            try:
                return await self._tried(line)
            except (OSError, EOFError) as err:
                await self.close()
                if clock() > until:
                    raise StoreError(f"records: expected the run's writer at {self._address.host}:{self._address.port}, got {err}") from err
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    async def _tried(self, line: bytes) -> dict[str, Any]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._address.host, self._address.port, limit=LONGEST_LINE)
            self._writer.write(self._address.secret.encode() + b"\n")
        self._writer.write(line)
        await self._writer.drain()
        said = await self._reader.readline()
        if not said:
            raise EOFError("an end of the connection")
        answer: dict[str, Any] = orjson.loads(said)
        return answer


def say_once(address: Address, do: str, **fields: Any) -> dict[str, Any]:
    """The same for code that has no event loop of its own; opens a connection for it."""

    async def said() -> dict[str, Any]:
        visitor = Visitor(address)
        try:
            return await visitor.say(do, **fields)
        finally:
            await visitor.close()

    return asyncio.run(said())
