"""Where servers of the zoo live: what they are asked and answer, the healthy TextCraft, in this process or as processes of their own."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
import uvicorn
from starlette.types import Receive, Scope, Send

from agentgym_envs.app import build_app
from agentgym_envs.textcraft.book import shipped_book
from agentgym_envs.textcraft.world import TextCraft

JSON = b"application/json"
TASK_COUNT = shipped_book("laptop").task_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request."""

    method: str
    path: str
    query: bytes
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The body's document where it is a mapping, else an empty one."""
        try:
            document = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        return document if isinstance(document, dict) else {}

    @property
    def session(self) -> int:
        """The session that the body names; -1 where it is none."""
        return self._number("id")

    @property
    def task(self) -> int:
        """The task that the body names; -1 where it is none."""
        return self._number("data_idx")

    def _number(self, name: str) -> int:
        value = self.fields.get(name)
        return value if isinstance(value, int) else -1

    def saying(self, **fields: object) -> Asked:
        """The same request with some fields of its body set."""
        return Asked(method=self.method, path=self.path, query=self.query, body=orjson.dumps({**self.fields, **fields}))


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply."""

    body: bytes
    status: int = 200
    kind: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def document(self) -> Any:
        """The body's document."""
        return orjson.loads(self.body)

    @property
    def observation(self) -> str | None:
        """What a reply to a reset or a step shows; None where it refuses."""
        document = self.document
        return document.get("observation") if isinstance(document, dict) else None

    def saying(self, **fields: object) -> Answer:
        """The same reply with some fields of its body set; one that refuses stays as it is."""
        return self if self.observation is None else Answer(orjson.dumps({**self.document, **fields}))


Server = Callable[[Asked], Awaitable[Answer]]


@dataclass(slots=True)
class Healthy:
    """The shipped world with the laptop book and an oracle."""

    app: Any = field(default_factory=lambda: textcraft())

    async def __call__(self, asked: Asked) -> Answer:
        """What it answers."""
        scope = {"type": "http", "http_version": "1.1", "method": asked.method, "path": asked.path, "raw_path": asked.path.encode()}
        scope |= {"query_string": asked.query, "headers": [(b"content-type", JSON)], "scheme": "http", "server": ("zoo", 80), "root_path": ""}
        said: list[Mapping[str, Any]] = []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": asked.body, "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        await self.app(scope, receive, send)
        return Answer(b"".join(message.get("body", b"") for message in said), said[0]["status"])


def textcraft(*, book: str = "laptop", wrap: bool = False, **options: Any) -> Any:
    """The healthy app; ``wrap`` takes task numbers modulo their count, further options are the shell's."""
    return build_app(TextCraft(book=shipped_book(book), wrap=wrap), oracle=True, **options)


@dataclass(slots=True)
class Cage:
    """A server as an ASGI app."""

    server: Server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange; nothing is done at the start and the end of the server."""
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        asked = Asked(method=scope["method"], path=scope["path"], query=scope["query_string"], body=body)
        answer = await self.server(asked)
        headers = [(b"content-type", answer.kind), (b"content-length", str(len(answer.body)).encode()), *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})


class Den(httpx.AsyncBaseTransport):
    """Servers in this process, by host; no network and no ASGI in between."""

    def __init__(self, **servers: Server) -> None:
        self._servers = servers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange. A body that breaks off is not for servers without a network: they never see the request."""
        url, body = request.url, await request.aread()
        answer = await self._servers[url.host](Asked(method=request.method, path=url.path, query=url.query, body=body))
        return httpx.Response(answer.status, headers=[(b"content-type", answer.kind), *answer.headers], content=answer.body)


def keep(server: Server) -> None:
    """Serve on a free loopback port, say where on the first line of standard output, and end with whoever holds standard input."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(256)
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}) + "\n")
    sys.stdout.flush()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    config = uvicorn.Config(Cage(server), lifespan="off", log_config=None, access_log=False)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)
