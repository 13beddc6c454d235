"""The wire of package_prep: refusals have a status of their own, and the verifier a route. Knows no particular world."""

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


class Numbered(BaseModel, strict=True):
    """The body of every call on a session that needs no more."""

    session: int


class Looking(BaseModel):
    """The query of every GET route."""

    session: int


class Step(Numbered, strict=True):
    """POST /step."""

    action: str


class Reset(Numbered, strict=True):
    """POST /reset."""

    task: int


def _routes(shell: Shell) -> Sequence[Route]:
    calls = _Calls(shell)
    routes = [
        Route("GET", "/", calls.greet),
        Route("POST", "/create", calls.create),
        Route("POST", "/reset", calls.reset),
        Route("POST", "/step", calls.step),
        Route("GET", "/observation", calls.observation),
        Route("GET", "/goal", calls.goal),
        Route("GET", "/verify", calls.verify),
        Route("POST", "/close", calls.close),
    ]
    return [*routes, Route("GET", "/oracle", calls.oracle)] if shell.offers_oracle else routes


class _Calls:
    """One method for each route; each returns what becomes the reply's JSON."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    async def greet(self, _: Asked) -> object:
        world = self._shell.world
        return {"world": world.greeting, "tasks": world.task_count}

    async def create(self, _: Asked) -> object:
        return {"session": (await self._shell.create()).number}

    async def reset(self, asked: Asked) -> object:
        body = asked.body(Reset)
        return {"observation": (await self._shell.reset(body.session, body.task)).observation}

    async def step(self, asked: Asked) -> object:
        body = asked.body(Step)
        step = await self._shell.step(body.session, body.action)
        return {"observation": step.observation, "reward": step.reward, "done": step.done}

    async def observation(self, asked: Asked) -> object:
        entry = await self._shell.last(asked.parameters(Looking).session)
        if entry.observation is None:
            raise WorldError("The session has no task. Reset it first.")
        return {"observation": entry.observation}

    async def goal(self, asked: Asked) -> object:
        return {"goal": await self._shell.look(asked.parameters(Looking).session, "goal")}

    async def verify(self, asked: Asked) -> object:
        return {"success": await self._shell.verify(asked.parameters(Looking).session)}

    async def oracle(self, asked: Asked) -> object:
        return {"actions": await self._shell.oracle(asked.parameters(Looking).session)}

    async def close(self, asked: Asked) -> object:
        number = asked.body(Numbered).session
        if not await self._shell.close(number):
            raise UnknownSession(f"The id {str(number)[:40]} is not valid.")
        return {"closed": True}


def _refused(_: str, error: WorldError) -> Reply:
    return Reply({"error": str(error)}, _STATUS.get(type(error), _REFUSED))


WIRE = Wire(_routes, _refused)
