"""A proxy in front of one environment server that injects faults by a seeded plan and writes every one of them down. Knows HTTP/1.1, no world."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

FAULTS = {"500": 0.05, "hang": 0.02, "reset": 0.01, "broken JSON": 0.01, "reward as text": 0.01, "error in 200": 0.01}
"""Share of requests that meet each fault."""
SLOW = 0.02
"""Share of requests whose answer is late, and in time."""
SLOWEST_SECONDS = 0.5
DOWN = "server down"
LATE = "answer too late"
"""Nobody planned it: the client gave up before the server's own answer came."""
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as its bytes."""

    call: str
    """``create``, ``reset``, ``step``, ``verify``, ``close`` or another path."""
    raw: bytes


@dataclass(slots=True)
class Ledger:
    """What was done to requests, by fault and call."""

    injected: Counter[tuple[str, str]] = field(default_factory=Counter)
    slow: int = 0
    requests: int = 0

    def met_by_attempts(self) -> Counter[str]:
        """Faults that ended an attempt: all but those of a close, which is the attempt's end already."""
        found: Counter[str] = Counter()
        for (fault, call), count in self.injected.items():
            if call != "close":
                found[fault] += count
        return found


class FaultProxy:
    """Passes requests on to ``port`` of this machine until it is armed; from then on each meets what the plan says.

    A fault takes the place of the server, which never sees the call, but for a close: that is passed on first, so that nothing stays open.
    """

    def __init__(self, port: int, *, seed: int, kill_at: int | None = None, on_kill: Callable[[FaultProxy], None] | None = None) -> None:
        """``on_kill`` is called when request ``kill_at`` after arming arrives."""
        self._port = port
        self._plan = random.Random(seed)
        self._kill_at, self._on_kill = kill_at, on_kill
        self._held = 0
        self._refused = 0
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.armed = False
        self.down = False
        self.ledger = Ledger()

    async def start(self) -> str:
        """Listen; the address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def refused(self, least: int) -> None:
        """Wait until so many requests were turned away because the server is down, and no answer is held back: no late one, no hanging one."""
        while self._held or self._refused < least:
            self._changed.clear()
            await self._changed.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while (asked := await _request(reader)) is not None:
                if server is None and not self.down:
                    server = await _connect(self._port)
                answer = await self._answer(asked, reader, server)
                if answer is None:
                    writer.transport.abort()
                    return
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._connections.discard(task)
            writer.close()
            if server is not None:
                server[1].close()

    async def _answer(
        self, asked: Asked, client: asyncio.StreamReader, server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None
    ) -> bytes | None:
        """What the client gets; None is a lost connection."""
        fault = self._next_fault(asked.call)
        if fault is not None and asked.call != "close":
            return await self._inject(fault, asked.call, client)
        answer = None if self.down or server is None else await _passed_on(asked, *server)
        if answer is None:
            self.ledger.injected[DOWN, asked.call] += self.armed
            self._refused += 1
            self._changed.set()
            return None
        if fault is not None:
            return await self._inject(fault, asked.call, client)
        if self.armed and self._plan.random() < SLOW:
            self.ledger.slow += 1
            await self._hold(asyncio.sleep(SLOWEST_SECONDS * self._plan.random()))
        if client.at_eof():
            self.ledger.injected[LATE, asked.call] += 1
        return answer

    def _next_fault(self, call: str) -> str | None:
        if not self.armed:
            return None
        self.ledger.requests += 1
        if self.ledger.requests == self._kill_at and self._on_kill is not None:
            self.down = True
            self._on_kill(self)
        if self.down:
            return None
        drawn, below = self._plan.random(), 0.0
        for fault, share in FAULTS.items():
            below += share
            if drawn < below:
                return None if fault == "reward as text" and call != "step" else fault
        return None

    async def _inject(self, fault: str, call: str, client: asyncio.StreamReader) -> bytes | None:
        self.ledger.injected[fault, call] += 1
        if fault == "reset":
            return None
        if fault == "hang":
            await self._hold(client.read(1))
            return None
        status, body = {
            "500": ("500 Internal Server Error", b"Internal Server Error"),
            "broken JSON": ("200 OK", b'{"observation": "On the sh'),
            "reward as text": ("200 OK", json.dumps({"observation": "Nothing happens: x", "reward": "0", "done": False}).encode()),
            "error in 200": ("200 OK", b'{"error": "The simulator crashed."}'),
        }[fault]
        return f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    async def _hold(self, waiting: Awaitable[object]) -> None:
        self._held += 1
        try:
            await waiting
        finally:
            self._held -= 1
            self._changed.set()


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    """The next request of a connection; None when there is none."""
    try:
        head = await reader.readuntil(_END)
        body = await reader.readexactly(_length(head))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    path = head.split(b" ", 2)[1].partition(b"?")[0].decode()
    return Asked(path.strip("/"), head + body)


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    try:
        return await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return None


async def _passed_on(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes | None:
    """The server's answer; None when it is gone."""
    try:
        writer.write(asked.raw)
        head = await reader.readuntil(_END)
        return head + await reader.readexactly(_length(head))
    except (asyncio.IncompleteReadError, OSError):
        return None


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
