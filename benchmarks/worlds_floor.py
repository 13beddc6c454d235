"""The least that a step over HTTP costs here: an ASGI application that reads a body and answers a constant, served as the worlds are."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import uvicorn

ANSWER = {"observation": "Inventory: You are not carrying anything.", "reward": 0, "done": False}


async def answer(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """The application."""
    orjson.loads((await receive())["body"])
    body = orjson.dumps(ANSWER)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Announce the address as the worlds do, and serve until a signal."""
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}) + "\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        answer, interface="asgi3", lifespan="off", log_config=None, access_log=False, proxy_headers=False, server_header=False, timeout_keep_alive=900
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
