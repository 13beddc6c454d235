"""A small TextCraft of the tests' own, as an ASGI app: healthy, or with one fault by name."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import httpx
import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from agentgym_cli.env.wire import build_http

URL = "http://toy"
GREETING = "This is environment TextCraft."


def prompt(index: int) -> str:
    """First observation of a task: commands in an order that depends on its number."""
    lines = [f"craft 1 item{index} using 2 part{number}" for number in range(6)]
    random.Random(index).shuffle(lines)
    return "Crafting commands:\n" + "\n".join(lines) + f"\n\nGoal: craft item{index}."


@dataclass
class Played:
    index: int = 0
    inventory: list[str] = field(default_factory=list)
    observation: str = ""
    done: bool = False


@dataclass
class ToyWorld:
    """The server's state; ``fault`` is '' or the name of one thing that it gets wrong."""

    fault: str = ""
    sessions: dict[int, Played] = field(default_factory=dict)
    opened: int = 0
    calls: list[str] = field(default_factory=list)
    current: Played = field(default_factory=Played)
    seed: int = 0

    def app(self) -> Starlette:
        names = {"create": "POST", "reset": "POST", "step": "POST", "close": "POST", "observation": "GET", "oracle": "GET"}
        routes = [Route(f"/{name}", self.answer, methods=[method]) for name, method in names.items()]
        return Starlette(routes=[Route("/", self.hello), *routes])

    def http(self) -> httpx.AsyncClient:
        """A client of the app, in this process."""
        return build_http(transport=httpx.ASGITransport(self.app(), raise_app_exceptions=False))

    async def hello(self, request: Request) -> Response:
        if self.fault == "html":
            return HTMLResponse("<h1>Welcome</h1>")
        return reply("This is environment BabyAI." if self.fault == "other environment" else GREETING)

    async def answer(self, request: Request) -> Response:
        name = request.url.path[1:]
        self.calls.append(name)
        body = orjson.loads(await request.body() or b"{}") if request.method == "POST" else {"id": int(request.query_params["id"])}
        if name == "create":
            return self.create()
        if name == "oracle" and self.fault == "no oracle":
            return Response("Not Found", status_code=404)
        session = self.sessions.get(body["id"])
        if session is None and self.fault == "ghost":
            session = Played()
        if session is None:
            return self.unknown(name, body["id"])
        return await getattr(self, name)(session, body)

    def create(self) -> Response:
        number = self.opened % 8 if self.fault == "recycled ids" else self.opened
        self.opened += 1
        self.sessions[number] = Played()
        return reply({"id": number, "observation": "", "done": False, "reward": 0})

    def unknown(self, name: str, number: int) -> Response:
        if self.fault == "crash on unknown":
            return Response("Internal Server Error", status_code=500)
        if name == "close":
            return Response("Internal Server Error", status_code=500) if self.fault == "crash on close" else reply(False)
        return reply({"error": f"The id {number} is not valid."})

    async def reset(self, session: Played, body: dict[str, int]) -> Response:
        index = self.seed = body["data_idx"]
        if self.fault == "two-faced under load":
            await asyncio.sleep(0)
            index = self.seed
        if self.fault == "drifting content":
            index += self.calls.count("reset")
        if self.fault == "another order":
            index = 4 - index
        text = prompt(index) + (" " if self.fault == "other content" else "")
        session.index, session.inventory, session.observation, session.done = body["data_idx"], [], text, False
        self.current = session
        return reply({"id": body["id"], "observation": text, "done": False, "reward": 0})

    async def step(self, session: Played, body: dict[str, str]) -> Response:
        if self.fault == "hang":
            await asyncio.Event().wait()
        if self.fault == "error in 200":
            return reply({"error": "CUDA out of memory"})
        if self.fault == "sticky" and session.done:
            return reply({"error": "The task has finished."})
        if self.fault == "answers for another session":
            session = self.current
        session.observation, session.done = self.execute(session, body["action"])
        reward: object = int(session.done)
        if self.fault == "reward not finite":
            return Response(b'{"observation": "x", "reward": NaN, "done": false}', media_type="application/json")
        if self.fault == "reward is a boolean":
            reward = session.done
        return reply({"observation": session.observation, "reward": reward, "done": session.done})

    def execute(self, session: Played, action: str) -> tuple[str, bool]:
        inventory = self.sessions[min(self.sessions)].inventory if self.fault == "shared inventory" else session.inventory
        words = action.split()
        if words[:1] == ["get"]:
            inventory.append(words[-1])
            return f"Got {' '.join(words[1:])}", False
        if words[:1] == ["inventory"]:
            return f"Inventory: {inventory}", False
        if words[:2] == ["craft", f"item{session.index}"] and "part" in inventory:
            return f"Crafted item{session.index}", True
        return "Nothing happens" if self.fault == "invalid action not named" else f"Could not execute {action}", False

    async def oracle(self, session: Played, body: dict[str, int]) -> Response:
        actions = ["get 2 part", f"craft item{session.index}"]
        return reply({"actions": actions[:1] if self.fault == "oracle does not solve" else actions})

    async def observation(self, session: Played, body: dict[str, int]) -> Response:
        return reply("stale" if self.fault == "stale observation" else session.observation)

    async def close(self, session: Played, body: dict[str, int]) -> Response:
        if self.fault != "close does nothing":
            del self.sessions[body["id"]]
        return reply(True)


def reply(document: object) -> Response:
    """A JSON reply."""
    return Response(orjson.dumps(document), media_type="application/json")
