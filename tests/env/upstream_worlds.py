"""Four servers of AgentGym in a few lines each: sessions, errors and oddities as theirs are known to be, the worlds themselves left out."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field

import httpx

from agentgym_cli.env.wire import build_http

CRASH = httpx.Response(500, text="Internal Server Error")


@dataclass
class Upstream:
    """One server. What it answers to a session that is there, each family says for itself."""

    family: str
    tasks: dict[int, int | None] = field(default_factory=dict)
    """By live session, its task; None before a reset."""
    moves: dict[int, int] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    made: itertools.count[int] = field(default_factory=itertools.count)

    def http(self) -> httpx.AsyncClient:
        """A client that is answered by this server."""
        return build_http(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else {key: int(value) for key, value in request.url.params.items()}
        return getattr(self, self.family)(request.url.path, body)

    def babyai(self, path: str, body: dict[str, object]) -> httpx.Response:
        session = body.get("id")
        if path == "/":
            return said("This is environment BabyAI.")
        if path == "/create":
            return said({"id": self._open()})
        if path == "/close":
            return said(self._close(session))
        if session not in self.tasks:
            return said({"error": f"The id {session} is not valid."})
        goal = f"Your goal: go to ball {self._task(session, body.get('data_idx'))}\n"
        seen = f"Turned {self._move(session, path, body)} times."
        unknown = path == "/step" and body["action"] not in ("turn left", "turn right", "check available actions")
        text = "The action is not recognized. Please check valid actions." if unknown else seen
        listed = f'{text}\nAvailable actions: ["turn left", "turn right"]'
        return said({"observation": listed if path == "/step" else goal + listed, "reward": 0, "score": 0, "done": False})

    def sciworld(self, path: str, body: dict[str, object]) -> httpx.Response:
        session = body.get("id")
        if path == "/":
            return said("This is environment ScienceWorld.")
        if path == "/create":
            return said({"id": self._open()})
        if path == "/close":
            return said(True) if self._close(session) else CRASH
        if session not in self.tasks:
            word = "The task with environment {} has been deleted." if session in self.closed else "The id {} is not valid."
            return said({"error": word.format(session)})
        task = self._task(session, body.get("data_idx"))
        room = f"This room is called room {task}, seen {self._move(session, path, body)} times."
        known = path != "/step" or body["action"] in ("look around", "inventory", "wait1")
        text = room if known else "No known action matches that input."
        reply = {"task_description": f"Boil {task}.", "observation": text, "reward": 0, "score": 0, "done": False}
        return said(text if path == "/observation" else reply)

    def searchqa(self, path: str, body: dict[str, object]) -> httpx.Response:
        session = body.get("env_idx")
        if path == "/":
            return said("ok")
        if path == "/create":
            return said(self._open()) if "id" in body else httpx.Response(422, json={"detail": []})
        if path == "/close":
            return said(self._close(session))
        if session not in self.tasks:
            return CRASH
        question = f"Question: number {self._task(session, body.get('id'))}?"
        if path != "/step":
            return said(question)
        found = re.search(r"<(search|answer)>(.*?)</\1>", str(body["action"]), re.DOTALL)
        text = f"<information>Doc 1 about {found[2]}</information>" if found else "Your previous action is invalid. Please try again."
        return said({"observation": text, "reward": 0.0, "done": False, "info": None})

    def webarena(self, path: str, body: dict[str, object]) -> httpx.Response:
        session = body.get("env_idx")
        if path == "/":
            return httpx.Response(200, text="ok")
        if path == "/create":
            return said({"env_idx": self._open()})
        if path == "/close":
            self._close(session)
            return said({"closed": "closed"})
        if path == "/reset" and session not in self.tasks:
            return said({"observation": "TimeoutError", "sites": "Error", "object": "Error"})
        if path == "/step":
            found = re.search(r"```((.|\n)*?)```", str(body["action"]))
            if found is None or session not in self.tasks:
                why = f"Cannot parse action from response {body['action']}" if found is None else str(session)
                return said({"observation": why, "reward": 0, "terminated": False, "truncated": False, "info": None})
        task = self._task(session, body.get("idx"))
        page = f"OBSERVATION: [1] link, scrolled {self._move(session, path, body)} times OBJECTIVE: {task}"
        if path == "/observation":
            return said(page)
        if path == "/reset":
            return said({"observation": "[1] link", "sites": ["map"], "object": str(task)})
        return said({"observation": page, "reward": 1.0, "terminated": False, "truncated": False, "info": {"page": {}}})

    def _open(self) -> int:
        session = next(self.made)
        self.tasks[session] = None
        return session

    def _close(self, session: object) -> bool:
        if session not in self.tasks:
            return False
        del self.tasks[session]
        self.closed.add(session)
        return True

    def _task(self, session: int, task: int | None) -> int | None:
        if task is not None:
            self.tasks[session], self.moves[session] = task, 0
        return self.tasks[session]

    def _move(self, session: int, path: str, body: dict[str, object]) -> int:
        self.moves[session] = self.moves.get(session, 0) + (path == "/step")
        return self.moves[session]


def said(body: object) -> httpx.Response:
    """A reply with HTTP 200 and a JSON body."""
    return httpx.Response(200, json=body)
