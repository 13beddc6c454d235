"""The wire of AgentGym's BabyAI server. Knows no grid."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from agentgym_envs.protocol import WorldError
from agentgym_envs.shell import Shell
from agentgym_envs.wire import Asked, Route, Wire, error_in_200

_NOT_STARTED = {"observation": "Environment not initialized", "reward": 0, "score": 0, "done": False, "deleted": False}


class Numbered(BaseModel):
    """POST /close and /render, and the queries of every GET route."""

    id: int


class Step(BaseModel):
    """POST /step."""

    id: int
    action: str


class Reset(BaseModel):
    """POST /reset."""

    id: int
    data_idx: int


def _routes(shell: Shell) -> Sequence[Route]:
    calls = _Calls(shell)
    routes = [
        Route("GET", "/", calls.greet),
        Route("POST", "/create", calls.create),
        Route("POST", "/reset", calls.reset),
        Route("POST", "/step", calls.step),
        Route("POST", "/render", calls.render),
        Route("POST", "/close", calls.close),
        Route("GET", "/observation", calls.observation),
    ]
    return [*routes, Route("GET", "/oracle", calls.oracle)] if shell.offers_oracle else routes


class _Calls:
    """One method for each route; each returns what becomes the reply's JSON."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def greet(self, _: Asked) -> object:
        return self._shell.world.greeting

    async def create(self, _: Asked) -> object:
        return {"id": (await self._shell.create()).number}

    async def reset(self, asked: Asked) -> object:
        body = asked.body(Reset)
        start = await self._shell.reset(body.id, body.data_idx)
        return {"observation": start.observation, "reward": 0, "score": 0, "deleted": False, "done": False}

    async def step(self, asked: Asked) -> object:
        body = asked.body(Step)
        if (await self._shell.last(body.id)).done:
            raise WorldError(f"The task with environment {body.id} has finished.")
        step = await self._shell.step(body.id, body.action)
        return {"observation": step.observation, "reward": step.reward, "score": step.extra["score"], "done": step.done}

    async def render(self, asked: Asked) -> object:
        return await self._shell.look(asked.body(Numbered).id, "render")

    async def close(self, asked: Asked) -> object:
        return await self._shell.close(asked.body(Numbered).id)

    async def observation(self, asked: Asked) -> object:
        """Unlike the reply to a step, with the goal in front."""
        entry = await self._shell.last(asked.parameters(Numbered).id)
        if entry.observation is None:
            return _NOT_STARTED
        goal = f"Your goal: {entry.extra['goal']}\n"
        text = entry.observation if entry.observation.startswith(goal) else goal + entry.observation
        return {"observation": text, "reward": entry.reward, "score": entry.extra["score"], "done": entry.done, "deleted": False}

    async def oracle(self, asked: Asked) -> object:
        return {"actions": await self._shell.oracle(asked.parameters(Numbered).id)}


WIRE = Wire(_routes, error_in_200)
