"""What a step over HTTP costs here with no world behind it: an ASGI application that reads a body and answers a constant, served as the worlds are.

With the argument ``declared`` the route is declared as AgentGym's TextCraft server declares its own, which has a world behind it and so is no faster:
a plain function under FastAPI with a pydantic body, which prints what it was asked. Needs fastapi.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import orjson
import uvicorn
from pydantic import BaseModel

ANSWER = {"observation": "Inventory: You are not carrying anything.", "reward": 0, "done": False}


async def answer(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """The application."""
    orjson.loads((await receive())["body"])
    body = orjson.dumps(ANSWER)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Step(BaseModel):
    """A body as AgentGym's server reads it."""

    id: int
    action: str


def step(body: Step) -> object:
    """The handler of a declared route."""
    print(f"/step {body.id} {body.action}")
    return ANSWER


def declared() -> Any:
    """An application with one declared route. Raises ImportError without fastapi."""
    app = import_module("fastapi").FastAPI()
    app.post("/step")(step)
    return app


def main() -> None:
    """Announce the address as the worlds do, and serve until a signal."""
    application: Any = declared() if sys.argv[1:] == ["declared"] else answer
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}) + "\n")
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    config = uvicorn.Config(
        application, lifespan="off", log_config=None, access_log=False, proxy_headers=False, server_header=False, timeout_keep_alive=900
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
