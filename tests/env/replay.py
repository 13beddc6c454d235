"""An AgentGym TextCraft server made of recorded exchanges: the same request gets the recorded reply, sessions come and go as recorded."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from agentgym_cli.env.wire import build_http

RECORD = json.loads((Path(__file__).parent / "data" / "textcraft_upstream.json").read_text())

TYPES = {"id": int, "data_idx": int, "action": str}
"""Of request fields: the server answers HTTP 422 to any other."""


def parsed(text: str) -> object:
    """A recorded body as JSON, or as the text it is."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


@dataclass
class Replay:
    """The recorded server. What it was never asked it answers as the record answers the like of it."""

    live: dict[int, str] = field(default_factory=dict)
    made: int = 0

    def http(self) -> httpx.AsyncClient:
        return build_http(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else {key: int(value) for key, value in request.url.params.items()}
        if any(not isinstance(value, TYPES.get(name, object)) for name, value in body.items()):
            return httpx.Response(422, json={"detail": []})
        path, session = request.url.path, body.pop("id", None)
        if path == "/":
            return said(recorded("/", {}))
        if path == "/create":
            reply = json.loads(recorded("/create", {})["reply"]) | {"id": self.made}
            self.live[self.made] = reply["observation"]
            self.made += 1
            return httpx.Response(200, json=reply)
        if path not in ("/reset", "/step", "/observation", "/close"):
            return said(recorded("/nope", {}))
        if session not in self.live:
            return httpx.Response(200, json=False if path == "/close" else {"error": f"The id {session} is not valid."})
        if path == "/close":
            del self.live[session]
            return httpx.Response(200, json=True)
        if path == "/observation":
            return httpx.Response(200, json=self.live[session])
        return self._played(path, session, body)

    def _played(self, path: str, session: int, body: dict[str, object]) -> httpx.Response:
        exchange = recorded(path, body)
        if exchange is None:
            return httpx.Response(200, json={"observation": f"Could not execute {body['action']}", "reward": 0, "done": False})
        reply = json.loads(exchange["reply"])
        self.live[session] = reply["observation"]
        return httpx.Response(200, json=reply | ({"id": session} if path == "/reset" else {}))


def recorded(path: str, body: dict[str, object]) -> dict[str, object] | None:
    """The first recorded exchange on a path with this body, its session aside."""
    for exchange in RECORD:
        sent = parsed(exchange["body"] or "{}")
        if exchange["path"] == path and isinstance(sent, dict) and {key: value for key, value in sent.items() if key != "id"} == body:
            return exchange
    return None


def said(exchange: dict[str, object]) -> httpx.Response:
    """A recorded reply as it was."""
    return httpx.Response(exchange["status"], content=exchange["reply"], headers={"content-type": exchange["type"]})
