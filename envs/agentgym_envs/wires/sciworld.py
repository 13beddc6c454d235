"""The wire of AgentGym's SciWorld server. Knows no simulator."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from agentgym_envs.protocol import WorldError
from agentgym_envs.sessions import Entry, UnknownSession
from agentgym_envs.shell import Shell
from agentgym_envs.wire import Asked, Route, Wire, error_in_200


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
    data_idx: int


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
        Route("GET", "/goals", calls.goals),
        Route("GET", "/action_hint", calls.action_hint),
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
        await self._open(body.id)
        start = await self._shell.reset(body.id, body.data_idx)
        about = {key: start.extra[key] for key in ("task_name", "var_num", "task_description")}
        return {**about, "observation": start.observation, "reward": 0, "score": start.extra["score"], "deleted": False, "done": False}

    async def step(self, asked: Asked) -> object:
        body = asked.body(Step)
        await self._playing(body.id)
        step = await self._shell.step(body.id, body.action)
        return {"observation": step.observation, "reward": step.reward, "score": step.extra["score"], "done": step.done}

    async def close(self, asked: Asked) -> object:
        return await self._shell.close(asked.body(Numbered).id)

    async def observation(self, asked: Asked) -> object:
        entry = await self._playing(asked.parameters(Numbered).id)
        if entry.observation is None:
            raise WorldError("The session has no task. Reset it first.")
        return entry.observation

    async def detail(self, asked: Asked) -> object:
        entry = await self._playing(asked.parameters(Numbered).id)
        state = {"deleted": False, "done": entry.done}
        if entry.observation is None:
            return state
        about = {key: entry.extra[key] for key in ("task_name", "var_num", "task_description")}
        return {**state, **about, "observation": entry.observation, "reward": entry.reward, "score": entry.extra["score"]}

    async def goals(self, asked: Asked) -> object:
        number = asked.parameters(Numbered).id
        await self._playing(number)
        return {"goals": await self._shell.look(number, "goals")}

    async def action_hint(self, asked: Asked) -> object:
        number = asked.parameters(Numbered).id
        await self._playing(number)
        return await self._shell.look(number, "action_hint")

    async def oracle(self, asked: Asked) -> object:
        number = asked.parameters(Numbered).id
        await self._open(number)
        return {"actions": await self._shell.oracle(number)}

    async def _open(self, number: int) -> Entry:
        """The session; a number that was given away and is open no more is refused in other words than one that never was."""
        try:
            return await self._shell.last(number)
        except UnknownSession as err:
            if 0 <= number < self._shell.sessions.made:
                raise UnknownSession(f"The task with environment {number} has been deleted.") from err
            raise

    async def _playing(self, number: int) -> Entry:
        """The session, its task not done."""
        entry = await self._open(number)
        if entry.done:
            raise WorldError(f"The task with environment {number} has finished.")
        return entry


WIRE = Wire(_routes, error_in_200)
