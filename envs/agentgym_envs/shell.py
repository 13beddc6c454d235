"""The HTTP face of any world: upstream's TextCraft wire contract over sessions. Knows no particular world."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym_envs.bodies import MOST_BYTES, Create, Numbered, Reset, Step, Unprocessable, read_body, read_query
from agentgym_envs.protocol import Session, World, WorldError
from agentgym_envs.sessions import Entry, Sessions, not_valid

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[object]]


def build_app(
    world: World, *, max_sessions: int = 10_000, idle_seconds: float = 3600.0, oracle: bool = False, clock: Callable[[], float] = time.monotonic
) -> Starlette:
    """The server of one world.

    Args:
        max_sessions: sessions open at once; one more is refused with a structured error.
        idle_seconds: a session without a call for longer is closed.
        oracle: also answer ``GET /oracle``.
        clock: monotonic seconds.
    """
    shell = _Shell(world, Sessions(most=max_sessions, idle_seconds=idle_seconds, clock=clock))
    gets: dict[str, Handler] = {
        "/": shell.greet,
        "/observation": shell.observation,
        "/detail": shell.detail,
        "/goal": shell.goal,
        "/commands": shell.commands,
    }
    if oracle:
        gets["/oracle"] = shell.oracle
    posts: dict[str, Handler] = {"/step": shell.step, "/reset": shell.reset, "/create": shell.create, "/close": shell.close}
    # Routes are tried in order, so the one that is called most comes first.
    routes = [Route(path, _answering(handler), methods=["POST"]) for path, handler in posts.items()]
    routes += [Route(path, _answering(handler), methods=["GET"]) for path, handler in gets.items()]
    return Starlette(routes=routes, exception_handlers={HTTPException: _http_error}, lifespan=shell.lifespan)


class _Shell:
    """One handler for each route; each returns what becomes the reply's JSON."""

    def __init__(self, world: World, sessions: Sessions) -> None:
        self._world = world
        self._sessions = sessions

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Closes every session when the server ends."""
        yield
        await self._release(self._sessions.remove_all())

    async def greet(self, _: Request) -> object:
        return self._world.greeting

    async def create(self, request: Request) -> object:
        read_body(Create, await _body(request))
        await self._release(self._sessions.remove_idle())
        number = self._sessions.reserve()
        try:
            session, observation = await self._open(number % self._world.task_count)
        except BaseException:
            self._sessions.give_up()
            raise
        self._sessions.add(number, session, observation)
        return {"id": number, "observation": observation, "done": False, "reward": 0}

    async def step(self, request: Request) -> object:
        body = read_body(Step, await _body(request))
        async with self._using(body.id) as entry:
            reply = await self._run(lambda: entry.session.step(body.action))
            entry.observation, entry.reward, entry.done = reply.observation, reply.reward, reply.done
        return {"observation": reply.observation, "reward": reply.reward, "done": reply.done}

    async def reset(self, request: Request) -> object:
        body = read_body(Reset, await _body(request))
        async with self._using(body.id) as entry:
            index = body.data_idx
            if index is None:
                raise WorldError("The data_idx null is not valid: expected an integer.")
            observation = await self._run(lambda: entry.session.reset(index))
            entry.observation, entry.reward, entry.done = observation, 0, False
        return {"id": body.id, "observation": observation, "done": False, "reward": 0}

    async def close(self, request: Request) -> object:
        number = read_body(Numbered, await _body(request)).id
        await self._release(self._sessions.remove_idle())
        entry = self._sessions.remove(number)
        if entry is None:
            return False
        await self._release([entry])
        return True

    async def observation(self, request: Request) -> object:
        return (await self._look(request)).observation

    async def detail(self, request: Request) -> object:
        entry = await self._look(request)
        return {"observation": entry.observation, "done": entry.done, "reward": entry.reward, "deleted": False}

    async def goal(self, request: Request) -> object:
        async with self._using(read_query(request.query_params).id) as entry:
            return await self._run(entry.session.goal)

    async def commands(self, request: Request) -> object:
        async with self._using(read_query(request.query_params).id) as entry:
            return "\n".join(await self._run(entry.session.commands))

    async def oracle(self, request: Request) -> object:
        async with self._using(read_query(request.query_params).id) as entry:
            return {"actions": await self._run(entry.session.oracle)}

    @asynccontextmanager
    async def _using(self, number: int) -> AsyncIterator[Entry]:
        """The session, for one call: calls on it wait for each other, and one that waited may find it closed."""
        await self._release(self._sessions.remove_idle())
        entry = self._sessions.use(number)
        async with entry.one_call:
            if entry.closed:
                raise not_valid(number)
            yield entry

    async def _open(self, index: int) -> tuple[Session, str]:
        """A session at the start of a task, and its first observation."""
        session = await self._run(self._world.open)
        try:
            return session, await self._run(lambda: session.reset(index))
        except BaseException:
            await self._run(session.close)
            raise

    async def _look(self, request: Request) -> Entry:
        number = read_query(request.query_params).id
        await self._release(self._sessions.remove_idle())
        return self._sessions.look(number)

    async def _release(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            async with entry.one_call:
                entry.closed = True
                await self._run(entry.session.close)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.to_thread(call) if self._world.blocking else call()


def _answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """The handler's value as JSON; a world's refusal as HTTP 200 with ``error``, as upstream; a body that is not understood as 422."""

    async def answer(request: Request) -> Response:
        try:
            return _json(await handler(request))
        except WorldError as refused:
            return _json({"error": str(refused)})
        except Unprocessable as refused:
            return _json({"detail": refused.detail}, 422)

    return answer


async def _body(request: Request) -> bytes:
    """The whole body; HTTP 413 when it is longer than MOST_BYTES, read no further."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"The body is longer than {MOST_BYTES} bytes.")
    return body


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"detail": error.detail}, error.status_code)


def _json(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
