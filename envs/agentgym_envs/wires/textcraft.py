"""The wire of AgentGym's TextCraft server, and of the worlds of our own that speak as it does. Knows no particular world."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from agentgym_envs.protocol import WorldError
from agentgym_envs.shell import Shell
from agentgym_envs.wire import Asked, Route, Wire, error_in_200


class Create(BaseModel):
    """POST /create. Both fields are checked and have no effect, as upstream."""

    commands: str | None = None
    goal: str | None = None


class Numbered(BaseModel):
    """POST /close and the queries of every GET route."""

    id: int


class Step(BaseModel):
    """POST /step."""

    id: int
    action: str


class Reset(BaseModel):
    """POST /reset."""

    id: int
    data_idx: int | None = 0


def _routes(shell: Shell) -> Sequence[Route]:
    calls = _Calls(shell)
    routes = [
        Route("GET", "/", calls.greet),
        Route("POST", "/create", calls.create),
        Route("POST", "/reset", calls.reset),
        Route("POST", "/step", calls.step),
        Route("POST", "/close", calls.close),
        Route("GET", "/observation", calls.observation),
        Route("GET", "/detail", calls.detail),
        Route("GET", "/goal", calls.goal),
        Route("GET", "/commands", calls.commands),
    ]
    return [*routes, Route("GET", "/oracle", calls.oracle)] if shell.offers_oracle else routes


class _Calls:
    """One method for each route; each returns what becomes the reply's JSON."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def greet(self, _: Asked) -> object:
        return self._shell.world.greeting

    async def create(self, asked: Asked) -> object:
        asked.body(Create)
        entry = await self._shell.create(lambda number: number % self._shell.world.task_count)
        return {"id": entry.number, "observation": entry.observation, "done": False, "reward": 0}

    async def reset(self, asked: Asked) -> object:
        body = asked.body(Reset)
        await self._shell.last(body.id)
        if body.data_idx is None:
            raise WorldError("The data_idx null is not valid: expected an integer.")
        start = await self._shell.reset(body.id, body.data_idx)
        return {"id": body.id, "observation": start.observation, "done": False, "reward": 0}

    async def step(self, asked: Asked) -> object:
        body = asked.body(Step)
        step = await self._shell.step(body.id, body.action)
        return {"observation": step.observation, "reward": step.reward, "done": step.done}

    async def close(self, asked: Asked) -> object:
        return await self._shell.close(asked.body(Numbered).id)

    async def observation(self, asked: Asked) -> object:
        return (await self._shell.last(asked.parameters(Numbered).id)).observation

    async def detail(self, asked: Asked) -> object:
        entry = await self._shell.last(asked.parameters(Numbered).id)
        return {"observation": entry.observation, "done": entry.done, "reward": entry.reward, "deleted": False}

    async def goal(self, asked: Asked) -> object:
        return await self._shell.look(asked.parameters(Numbered).id, "goal")

    async def commands(self, asked: Asked) -> object:
        return await self._shell.look(asked.parameters(Numbered).id, "commands")

    async def oracle(self, asked: Asked) -> object:
        return {"actions": await self._shell.oracle(asked.parameters(Numbered).id)}


WIRE = Wire(_routes, error_in_200)
