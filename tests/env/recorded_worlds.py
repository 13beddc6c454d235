"""AgentGym's BabyAI, ScienceWorld, LMRL-Gym and SQLGym servers made of recorded exchanges: the same request gets the recorded reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from agentgym_cli.env.wire import build_http
from tests.env.replay import parsed, said

Exchange = dict[str, object]
FAMILIES = ("babyai", "sciworld", "maze", "wordle", "sqlgym")
RECORDS: dict[str, list[Exchange]] = {name: json.loads((Path(__file__).parent / "data" / f"{name}_upstream.json").read_text()) for name in FAMILIES}
TASK_FIELD = {"babyai": "data_idx", "sciworld": "data_idx", "maze": "game", "wordle": "seed", "sqlgym": "item_id"}
SESSION_FIELD = {"sqlgym": "env_idx"}
UNKNOWN_ACTION = {"babyai": "fly", "sciworld": "fly to moon", "maze": "fly", "wordle": "z z z z z\n", "sqlgym": "select count(*) from nope"}


@dataclass
class Played:
    task: object = None
    observation: object = None
    done: bool = False


@dataclass
class Recorded:
    """A recorded server. Sessions come and go as recorded; what it was never asked it answers as the record answers the like of it."""

    family: str
    live: dict[object, Played] = field(default_factory=dict)
    closed: set[object] = field(default_factory=set)
    made: int = 0

    def http(self) -> httpx.AsyncClient:
        return build_http(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        try:
            body = json.loads(request.content) if request.content else {key: int(value) for key, value in request.url.params.items()}
        except ValueError:
            return said(self._first(lambda exchange: exchange["status"] == 422))
        name = SESSION_FIELD.get(self.family, "id")
        path = request.url.path.removeprefix(f"/{self.family}") or "/"
        if path == "/":
            return said(self._on("/")[0])
        if path == "/create":
            return self._created()
        session = body.pop(name, None) if isinstance(body, dict) else None
        if not isinstance(session, int) or isinstance(session, bool) or not self._typed(path, body):
            return said(self._first(lambda exchange: exchange["status"] == 422))
        if not self._on(path) or (path == "/close" and self._on("/close")[0]["status"] == 404):
            return httpx.Response(404, json={"detail": "Not Found"})
        if session in self.closed or session not in self.live:
            return self._refused(path, session)
        return self._closed(session) if path == "/close" else self._played(path, self.live[session], body)

    def _typed(self, path: str, body: dict[str, object]) -> bool:
        """Whether the values are of the types that FastAPI takes."""
        kind, value = {"/reset": (int, body.get(TASK_FIELD[self.family])), "/step": (str, body.get("action"))}.get(path, (object, None))
        return isinstance(value, kind) and not isinstance(value, bool)

    def _created(self) -> httpx.Response:
        replies = [parsed(exchange["reply"]) for exchange in self._on("/create")]
        session = replies[self.made % 8] if self.family == "sqlgym" else self.made
        self.made += 1
        self.live.setdefault(session, Played())
        return httpx.Response(200, json=session if self.family == "sqlgym" else {"id": session})

    def _closed(self, session: object) -> httpx.Response:
        del self.live[session]
        self.closed.add(session)
        return said(self._first(lambda exchange: exchange["path"] == "/close" and exchange["reply"] == "true"))

    def _refused(self, path: str, session: object) -> httpx.Response:
        """As the record answers a session that was closed, or was never there."""
        if path == "/close":
            return said(self._on("/close")[-1 if session in self.closed else 0])
        if session in self.closed:
            return said([exchange for exchange in self._on("/step") if "deleted" in exchange["reply"] or "not valid" in exchange["reply"]][-1])
        return said([exchange for exchange in self._on("/reset") if "not valid" in exchange["reply"] or exchange["status"] == 500][-1])

    def _played(self, path: str, played: Played, body: dict[str, object]) -> httpx.Response:
        if path == "/filtered_vocab":
            return said(self._on(path)[0])
        if played.done and path != "/reset" and self.family != "sqlgym":
            return said(self._first(lambda exchange: "has finished" in exchange["reply"]))
        if path == "/observation":
            return httpx.Response(200, json={"observation": played.observation} if self.family == "babyai" else played.observation)
        if path == "/step" and played.task is None:
            return said(self._on("/step")[0])
        exchange = self._reset(body) if path == "/reset" else self._step(played.task, str(body["action"]))
        reply = parsed(exchange["reply"])
        if exchange["status"] == 200 and "error" not in reply:
            self._keep(path, played, body, reply)
        return said(exchange)

    def _keep(self, path: str, played: Played, body: dict[str, object], reply: object) -> None:
        if path == "/reset":
            played.task, played.done = body[TASK_FIELD[self.family]], False
            played.observation = reply[0] if isinstance(reply, list) else reply["observation"]
            return
        played.done = reply["done"]
        if self.family == "babyai":
            played.observation = f"{str(played.observation).partition(chr(10))[0]}\n{reply['observation']}"
        elif self.family != "sqlgym":
            played.observation = reply["observation"]

    def _reset(self, body: dict[str, object]) -> Exchange:
        wanted = body[TASK_FIELD[self.family]]
        known = [exchange for exchange in self._on("/reset") if json.loads(exchange["body"]).get(TASK_FIELD[self.family]) == wanted]
        beyond = [exchange for exchange in self._on("/reset") if exchange["status"] == 500 or "error" in exchange["reply"]]
        return (known or beyond)[0]

    def _step(self, task: object, action: str) -> Exchange:
        """The recorded reply to an action in a task, in any task, or to an unknown action."""
        steps = list(self._steps())
        wanted = [exchange for at, exchange in steps if at == task and json.loads(exchange["body"])["action"] == action]
        elsewhere = [exchange for _, exchange in steps if json.loads(exchange["body"])["action"] in (action, UNKNOWN_ACTION[self.family])]
        return (wanted or sorted(elsewhere, key=lambda exchange: json.loads(exchange["body"])["action"] != action))[0]

    def _steps(self) -> Iterator[tuple[object, Exchange]]:
        """Recorded steps that were played, each with its task."""
        task: object = None
        for exchange in RECORDS[self.family]:
            path, reply = self._path(exchange), parsed(exchange["reply"])
            answered = exchange["status"] == 200 and not (isinstance(reply, dict) and "error" in reply)
            if path == "/reset" and answered:
                task = json.loads(exchange["body"])[TASK_FIELD[self.family]]
            elif path == "/step" and answered and task is not None:
                yield task, exchange

    def _on(self, path: str) -> list[Exchange]:
        return [exchange for exchange in RECORDS[self.family] if self._path(exchange) == path]

    def _first(self, wanted: Callable[[Exchange], bool]) -> Exchange:
        return next(exchange for exchange in RECORDS[self.family] if wanted(exchange))

    def _path(self, exchange: Exchange) -> str:
        path = str(exchange["path"]).partition("?")[0]
        return path.removeprefix(f"/{self.family}") if path != "/" else path
