"""A chat-completions server and a TextCraft-like environment in one process, as quick as Python allows: what benchmarks/overhead.py talks to.

    python -m benchmarks.overhead_servers

Prints {"url": ...} and serves until its standard input ends. Every reply is made at once; an environment is done at its tenth action.
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import count

TURNS = 10
REPLY_TOKENS = 24
OBSERVATION = "Crafted 1 stick. Inventory: [oak log] (3) [stick] (1) [oak planks] (8). " * 3
PROMPT = "Crafting commands:\n" + "craft 4 stick using 2 planks\n" * 12 + "Goal: craft item frame."
SAID = "Thought: the planks are there, sticks come next, and then the frame.\nAction: craft 4 stick using 2 planks"
_SESSIONS = count()
_TAKEN: dict[int, int] = {}


def answer(method: str, path: str, body: bytes) -> object:
    """The JSON value of a reply."""
    if path == "/v1/models":
        return {"object": "list", "data": [{"id": "bench", "object": "model"}]}
    if path == "/v1/chat/completions":
        return _completion()
    if path == "/":
        return "This is environment TextCraft."
    if path == "/create":
        return {"id": next(_SESSIONS)}
    fields = json.loads(body)
    session = int(fields["id"])
    if path == "/reset":
        _TAKEN[session] = 0
        return {"observation": PROMPT}
    if path == "/close":
        return _TAKEN.pop(session, None) is not None
    _TAKEN[session] += 1
    done = _TAKEN[session] == TURNS
    return {"observation": OBSERVATION, "reward": float(done), "done": done}


def _completion() -> object:
    choice = {"index": 0, "message": {"role": "assistant", "content": SAID}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": REPLY_TOKENS, "total_tokens": 900 + REPLY_TOKENS}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "bench", "choices": [choice], "usage": usage}


class Server(asyncio.Protocol):
    """One connection: whole requests in, one reply each out."""

    def __init__(self) -> None:
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it to answer on."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._held += data
        while True:
            head, ended, rest = self._held.partition(b"\r\n\r\n")
            length = _length(head)
            if not ended or len(rest) < length:
                return
            self._held = rest[length:]
            method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            body = json.dumps(answer(method, path, rest[:length])).encode()
            assert self._transport is not None
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


async def serve() -> None:
    """Serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{port}"}) + "\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
