"""The wire of AgentGym's SearchQA server; refusals have a status of their own, where upstream answers 500. Knows no particular world."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from agentgym_envs.calls import Busy, TooSlow
from agentgym_envs.protocol import WorldError
from agentgym_envs.sessions import Full, UnknownSession
from agentgym_envs.shell import Shell
from agentgym_envs.wire import Asked, Reply, Route, Wire

_STATUS: dict[type[WorldError], int] = {UnknownSession: 404, Full: 503, Busy: 503, TooSlow: 504}
_REFUSED = 409


class Create(BaseModel):
    """POST /create: the task that the session starts with."""

    id: int


class Numbered(BaseModel):
    """POST /close and the queries of every GET route."""

    env_idx: int


class Step(BaseModel):
    """POST /step: the whole response of a model."""

    env_idx: int
    action: str


class Reset(BaseModel):
    """POST /reset."""

    env_idx: int
    id: int | None = None


def _routes(shell: Shell) -> Sequence[Route]:
    calls = _Calls(shell)
    routes = [
        Route("GET", "/", calls.greet),
        Route("POST", "/create", calls.create),
        Route("POST", "/reset", calls.reset),
        Route("POST", "/step", calls.step),
        Route("GET", "/observation", calls.observation),
        Route("GET", "/metadata", calls.metadata),
        Route("POST", "/close", calls.close),
    ]
    return [*routes, Route("GET", "/oracle", calls.oracle)] if shell.offers_oracle else routes


class _Calls:
    """One method for each route; each returns what becomes the reply's JSON."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def greet(self, _: Asked) -> object:
        return self._shell.world.greeting

    async def create(self, asked: Asked) -> object:
        task = asked.body(Create).id
        return (await self._shell.create(lambda _: task)).number

    async def reset(self, asked: Asked) -> object:
        body = asked.body(Reset)
        await self._shell.last(body.env_idx)
        if body.id is None:
            raise WorldError("The id null is not valid: expected an integer.")
        return (await self._shell.reset(body.env_idx, body.id)).observation

    async def step(self, asked: Asked) -> object:
        body = asked.body(Step)
        step = await self._shell.step(body.env_idx, body.action)
        return {"observation": step.observation, "reward": step.reward, "done": step.done, "info": step.extra.get("info")}

    async def observation(self, asked: Asked) -> object:
        return (await self._shell.last(asked.parameters(Numbered).env_idx)).observation

    async def metadata(self, asked: Asked) -> object:
        return await self._shell.look(asked.parameters(Numbered).env_idx, "metadata")

    async def close(self, asked: Asked) -> object:
        return await self._shell.close(asked.body(Numbered).env_idx)

    async def oracle(self, asked: Asked) -> object:
        return {"actions": await self._shell.oracle(asked.parameters(Numbered).env_idx)}


def _refused(_: str, error: WorldError) -> Reply:
    return Reply({"error": str(error)}, _STATUS.get(type(error), _REFUSED))


WIRE = Wire(_routes, _refused)
