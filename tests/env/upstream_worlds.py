"""AgentGym's servers in a few lines each: sessions, errors and oddities as theirs are known to be, the worlds themselves left out."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from agentgym_cli.env.wire import build_http

Body = dict[str, object]
CRASH = httpx.Response(500, text="Internal Server Error")
INVALID = httpx.Response(422, json={"detail": [{"type": "int_parsing"}]})
MISSING = httpx.Response(404, json={"detail": "Not Found"})
TOOLS = ("weather", "movie", "academia", "sheet", "todo")
WORDS = ("panic", "solar", "shire", "proxy", "light")
GREETINGS = {
    "babyai": "This is environment BabyAI.",
    "sciworld": "This is environment ScienceWorld.",
    "alfworld": "This is environment AlfWorld.",
    "maze": "This is environment LMRL-Gym.",
    "wordle": "This is environment LMRL-Gym.",
}
WINS = {
    "babyai": "go to red ball 1",
    "sciworld": "focus on water",
    "alfworld": "put mug 1 in/on cabinet 1",
    "webshop": "click[Buy Now]",
    "webarena": "```stop [done]```",
    "searchqa": "<answer>right</answer>",
    "sqlgym": "select 2",
    "maze": "move right",
    "wordle": "l i g h t",
} | dict.fromkeys(TOOLS, 'Action: finish with Action Input: {"answer": 1}')
"""By family, the action that its servers here pay and end a task with, whatever the task."""
LAST_TASK = 25


@dataclass
class Session:
    task: int | None = None
    moves: int = 0
    done: bool = False


@dataclass
class Upstream:
    """One server. What it answers to a session that is there, each family says for itself."""

    family: str
    ids: int | None = None
    """How many sessions it knows before it hands out the ids of earlier ones."""
    sessions: dict[int, Session] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)
    made: itertools.count[int] = field(default_factory=itertools.count)
    calls: list[str] = field(default_factory=list)

    def http(self) -> httpx.AsyncClient:
        """A client that is answered by this server."""
        return build_http(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        try:
            body = json.loads(request.content) if request.content else {key: int(value) for key, value in request.url.params.items()}
        except ValueError:
            return INVALID
        path = request.url.path.removeprefix(f"/{self.family}") or "/"
        self.calls.append(path)
        if request.url.path == "/":
            return said(GREETINGS.get(self.family, "ok")) if self.family != "webarena" else httpx.Response(200, text="ok")
        if not isinstance(body, dict):
            return INVALID
        family = self._tool if self.family in TOOLS else getattr(self, f"_{self.family}")
        return family(path, body)

    def _babyai(self, path: str, body: Body) -> httpx.Response:
        if path == "/close" and integer(body.get("id")):
            return said(self._close(body["id"]))
        return self._by_id(path, body, "data_idx", self._babyai_played)

    def _babyai_played(self, session: Session, path: str, action: str) -> httpx.Response:
        unknown = path == "/step" and action not in ("turn left", "turn right", "check available actions", WINS["babyai"])
        won = path == "/step" and action == WINS["babyai"]
        text = "The action is not recognized. Please check valid actions." if unknown else f"Turned {session.moves} times."
        session.done = won
        listed = f'{text}\nAvailable actions: ["turn left", "turn right"]'
        goal = f"Your goal: go to ball {session.task}\n" if path != "/step" else ""
        reward = 0.91 if won else 0
        return said({"observation": goal + listed, "reward": reward, "score": reward, "done": won})

    def _sciworld(self, path: str, body: Body) -> httpx.Response:
        if path == "/close" and integer(body.get("id")):
            return said(True) if self._close(body["id"]) else CRASH
        if integer(body.get("id")) and body["id"] in self.closed:
            return said({"error": f"The task with environment {body['id']} has been deleted."})
        return self._by_id(path, body, "data_idx", self._sciworld_played)

    def _sciworld_played(self, session: Session, path: str, action: str) -> httpx.Response:
        known = path != "/step" or action in ("look around", "inventory", "wait1", WINS["sciworld"])
        won = path == "/step" and action == WINS["sciworld"]
        session.done = won
        text = f"This room is called room {session.task}, seen {session.moves} times." if known else "No known action matches that input."
        score = 100 if won else 0
        reply = {"task_description": f"Boil {session.task}.", "observation": text, "reward": score, "score": score, "done": won}
        return said(text if path == "/observation" else reply)

    def _alfworld(self, path: str, body: Body) -> httpx.Response:
        if path == "/reset" and body.get("world_type") != "Text":
            return INVALID
        return self._by_id(path, body, "game", self._alfworld_played)

    def _alfworld_played(self, session: Session, path: str, action: str) -> httpx.Response:
        start = f"You are in the middle of a room. There is a cabinet 1.\nYour task is to: put mug {session.task} in cabinet."
        known = action in ("look", "inventory", WINS["alfworld"])
        won = path == "/step" and action == WINS["alfworld"]
        session.done = won
        text = start if path != "/step" else f"You did this {session.moves} times." if known else "Nothing happens."
        choices = ["go to cabinet 1", "inventory", "look"]
        if path == "/observation":
            return said(text)
        if path == "/reset":
            return said({"id": 0, "observation": text, "available_actions": choices, "task_type": "pick_and_place"})
        return said({"observation": text, "reward": 1.0 if won else 0.0, "available_actions": choices, "done": won})

    def _maze(self, path: str, body: Body) -> httpx.Response:
        return self._by_id(path, body, "game", self._maze_played)

    def _maze_played(self, session: Session, path: str, action: str) -> httpx.Response:
        won = path == "/step" and action == WINS["maze"]
        failed = session.moves == 50 and not won
        session.done = won or failed
        place = f"The goal is at position 8, 6. Your current position is at position 1, {session.task}. There are walls above you, below you."
        text = "Success\n" if won else "Failure\n" if failed else place
        reply = {"observation": text, "reward": 1.0 if won else 0, "done": session.done}
        return said(text if path == "/observation" else {"observation": text} if path == "/reset" else reply)

    def _wordle(self, path: str, body: Body) -> httpx.Response:
        if path == "/filtered_vocab" and body.get("id") in self.sessions:
            return said(list(WORDS))
        return self._by_id(path, body, "seed", self._wordle_played)

    def _wordle_played(self, session: Session, path: str, action: str) -> httpx.Response:
        guess = action.replace(" ", "").strip()
        if path != "/step":
            return said("Let's start Wordle!" if path == "/observation" else {"id": 0, "observation": "Let's start Wordle!"})
        if guess not in WORDS:
            session.moves -= 1
            return said({"observation": "invalid word", "reward": 0.0, "done": False})
        won = action == WINS["wordle"]
        session.done = won or session.moves == 6
        text = "g g g g g\n" if won else f"b b b b {'g' if session.task == 1 else 'y'}\n"
        return said({"observation": text, "reward": 1 if won else 0, "done": session.done})

    def _webshop(self, path: str, body: Body) -> httpx.Response:
        found = self._by_env_idx(path, body, "session_id")
        if isinstance(found, httpx.Response):
            return found
        won = path == "/step" and body["action"] == WINS["webshop"]
        page = f"WebShop [SEP] Instruction: [SEP] Find chair {found.task} [SEP] Search"
        page = "Thank you for shopping with us! [SEP] Your code:" if won else f"{page} [SEP] {found.moves}" if found.moves else page
        if path == "/step":
            return said({"state": page, "reward": 1.0 if won else 0.0, "done": won, "info": None})
        return said([page, None] if path == "/reset" else page)

    def _sqlgym(self, path: str, body: Body) -> httpx.Response:
        found = self._by_env_idx(path, body, "item_id")
        if isinstance(found, httpx.Response):
            return found
        if path == "/step":
            action = body["action"]
            known = re.fullmatch(r"select (\d)", action)
            state = f"[({known[1]},)]" if known else f'near "{action[:9]}": syntax error'
            return said({"state": state, "reward": float(action == WINS["sqlgym"]), "done": True, "info": {"ground_truth": "select 2"}})
        question = f"shop contains tables such as item.\n\nWhat is item {found.task}?"
        return said([question, None] if path == "/reset" else question)

    def _tool(self, path: str, body: Body) -> httpx.Response:
        if path == "/create" and not integer(body.get("id")):
            return INVALID
        found = self._by_env_idx(path, body, "id")
        if isinstance(found, httpx.Response):
            return found
        if path != "/step":
            return said(f"Now new trial starts.\nYou should perform actions to accomplish the goal: find {found.task}\nGive me one action.")
        line = re.search(r"\s*(.*?)\s*with\s*Action Input:\s*(.*?)$", body["action"])
        if line is None:
            text = 'Format error, please response in the format of  "Action: [your action] with Action Input: [your action input]'
            return said({"observation": text, "reward": 0, "done": False})
        done = "finish" in line[1]
        answer = "1" if done else "ERROR | Invalid action: nothing." if "nothing" in line[1] else f"Fact {found.moves} of {found.task}"
        return said({"observation": f"Observation: {answer}\nGive me one action.", "reward": 1.0 if done else 0, "done": done})

    def _searchqa(self, path: str, body: Body) -> httpx.Response:
        if path == "/create" and not integer(body.get("id")):
            return INVALID
        if path == "/close" and integer(body.get("env_idx")):
            return said(self._close(body["env_idx"]))
        found = self._by_env_idx(path, body, "id")
        if isinstance(found, httpx.Response):
            return found
        if path != "/step":
            return said(f"Question: number {found.task}?")
        tag = re.search(r"<(search|answer)>(.*?)</\1>", str(body["action"]), re.DOTALL)
        if tag is None:
            text = "Your previous action is invalid. Please try again."
        elif tag[1] == "search":
            text = f"<information>Doc 1 about {tag[2]}</information>"
        else:
            text = "Congratulations!" if tag[2] == "right" else "Sorry, your answer is incorrect. Please try again."
        won = text == "Congratulations!"
        return said({"observation": text, "reward": float(won), "done": won, "info": None})

    def _webarena(self, path: str, body: Body) -> httpx.Response:
        session = body.get("env_idx")
        if path == "/create":
            return said({"env_idx": self._open()})
        if path == "/close":
            self._close(session)
            return said({"closed": "closed"})
        found = self.sessions.get(session) if integer(session) else None
        if path == "/reset" and (found is None or not integer(body.get("idx"))):
            return said({"observation": "TimeoutError", "sites": "Error", "object": "Error"})
        if path == "/reset":
            found.task, found.moves = body["idx"], 0
            return said({"observation": "[1] link", "sites": ["map"], "object": str(found.task)})
        if path == "/step":
            block = re.search(r"```((.|\n)*?)```", str(body["action"]))
            if block is None or found is None:
                why = f"Cannot parse action from response {body['action']}" if block is None else str(session)
                return said({"observation": why, "reward": 0, "terminated": False, "truncated": False, "info": None})
            found.moves += 1
        if found is None:
            return CRASH
        page = f"OBSERVATION: [1] link, scrolled {found.moves} times OBJECTIVE: {found.task}"
        if path == "/observation":
            return said(page)
        won = body["action"] == WINS["webarena"]
        return said({"observation": page, "reward": 1.0, "terminated": won, "truncated": False, "info": {"page": {}}})

    def _by_id(self, path: str, body: Body, task_field: str, played: Callable[[Session, str, str], httpx.Response]) -> httpx.Response:
        """The families that answer errors with HTTP 200 and refuse a task that has finished."""
        name = body.get("id")
        if path == "/create":
            return said({"id": self._open()})
        if path not in ("/reset", "/step", "/observation"):
            return MISSING
        if not integer(name) or (path == "/reset" and not integer(body.get(task_field))) or (path == "/step" and not isinstance(body["action"], str)):
            return INVALID
        if name not in self.sessions:
            return said({"error": f"The id {name} is not valid."})
        session = self.sessions[name]
        if path == "/reset":
            if not 0 <= body[task_field] <= LAST_TASK:
                return said({"error": f"The game {body[task_field]} is not valid."})
            self.sessions[name] = session = Session(task=body[task_field])
        elif session.task is None:
            return said({"error": str(name)})
        elif session.done:
            return said({"error": f"The task with environment {name} has finished."})
        session.moves += path == "/step"
        return played(session, path, str(body.get("action", "")))

    def _by_env_idx(self, path: str, body: Body, task_field: str) -> Session | httpx.Response:
        """The families that answer a call they cannot serve with a crash, and execute what comes after done."""
        name = body.get("env_idx")
        if path == "/create":
            return said(self._open())
        if path not in ("/reset", "/step", "/observation"):
            return MISSING
        if not integer(name) or (path == "/reset" and not integer(body.get(task_field))) or (path == "/step" and not isinstance(body["action"], str)):
            return INVALID
        session = self.sessions.get(name)
        if session is None or (path == "/reset" and not 0 <= body[task_field] <= LAST_TASK) or (path != "/reset" and session.task is None):
            return CRASH
        if path == "/reset":
            session.task, session.moves = body[task_field], 0
        session.moves += path == "/step"
        return session

    def _open(self) -> int:
        number = next(self.made)
        session = number if self.ids is None else number % self.ids
        self.sessions.setdefault(session, Session())
        return session

    def _close(self, session: object) -> bool:
        if not integer(session) or session not in self.sessions:
            return False
        del self.sessions[session]
        self.closed.add(session)
        return True


def integer(value: object) -> bool:
    """True for what FastAPI takes as an integer here."""
    return isinstance(value, int) and not isinstance(value, bool)


def said(body: object) -> httpx.Response:
    """A reply with HTTP 200 and a JSON body."""
    return httpx.Response(200, json=body)
