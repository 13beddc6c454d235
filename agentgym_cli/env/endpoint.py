"""One server, spoken to in one dialect: a call becomes our words or an EnvFailure. Keeps no session state but open connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Mapping
from typing import TypeVar

import httpx
import orjson

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.dialect_routes import (
    ChoicesRoute,
    CloseRoute,
    CreateRoute,
    Match,
    ObserveRoute,
    OracleRoute,
    ResetRoute,
    StepRoute,
    VerifyRoute,
)
from agentgym_cli.env.pointer import Json
from agentgym_cli.env.reply import Reply, SessionId, shortened
from agentgym_cli.env.socket import Sockets
from agentgym_cli.env.wire import Call, RawReply, Target, encoded, exchange
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.addresses import address_problem

Route = CreateRoute | ResetRoute | StepRoute | ObserveRoute | ChoicesRoute | CloseRoute | OracleRoute | VerifyRoute
R = TypeVar("R")

HEADERS = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json", "user-agent": "agentgym"}

_FULL = "give the server room for more sessions, name more servers in env.urls, or lower engine.slots"


def base_url(text: str) -> str:
    """``text`` without its last slash.

    Raises:
        RecipeError: not the address of a server: no http(s), or with credentials or a query.
    """
    problem = address_problem(text) or _unreadable(text)
    if problem is not None:
        hint = "name a server of WebSockets by http:// or https:// too" if text.startswith(("ws://", "wss://")) else "docs/probe.md shows some"
        raise RecipeError(f"environment URL: expected http://HOST:PORT, without credentials or query, got {problem}", hint)
    return text.rstrip("/")


def refuse_twice(urls: Iterable[str]) -> None:
    """A server is no replica of itself: what is compared over replicas would then always agree. Raises RecipeError."""
    seen: set[str] = set()
    for url in map(base_url, urls):
        if url in seen:
            raise RecipeError(f"environment URL: expected each server once, got {shortened(url)} again")
        seen.add(url)


def _unreadable(text: str) -> str | None:
    try:
        httpx.URL(text)
    except httpx.InvalidURL:
        return shortened(text)
    return None


class Endpoint:
    """The calls of one dialect on one server. Each is sent once and raises EnvFailure, and nothing else, when the server fails."""

    def __init__(self, http: httpx.AsyncClient, dialect: Dialect, url: str, *, call_seconds: float, token: str | None = None) -> None:
        self.url = base_url(url)
        self.dialect = dialect
        self._http = http
        self._routes = dialect.spec.routes
        self._seconds = call_seconds
        self.oracle_seconds = dialect.spec.routes.oracle_deadline(call_seconds)
        """Deadline of a call of the oracle."""
        self._headers = httpx.Headers({**HEADERS} if token is None else {**HEADERS, "authorization": f"Bearer {token}"})
        self._targets = {call: self._target(call) for call in dialect.spec.routes.calls() if not call.startswith("SEND ")}
        socket = dialect.spec.socket
        self._sockets = None if socket is None else Sockets(http, socket, self.url, self._headers)

    async def greeting(self) -> tuple[int, Json]:
        """Status and body of the health route's reply, whatever they are; a body that is no JSON comes as text."""
        route = self._routes.health
        raw = await exchange(self._http, self._request(route.call, {}), seconds=self._seconds)
        return raw.status, _text(raw) if route.format == "text" else _json_or_text(raw)[0]

    async def create(self) -> SessionId:
        """Make a session."""
        route = self._routes.create
        if self._sockets is not None:
            return await self._connect(self._sockets)
        assert route.session is not None, "null only beside a socket"
        return (await self.call(route, {})).session(route.session)

    async def reset(self, session: SessionId, task_index: int) -> str:
        """Start a task; its first observation."""
        route = self._routes.reset
        reply = await self.call(route, {**self._named(session), route.task_field: task_index})
        observation = await self.observe(session) if route.observation is None else reply.shown(route.observation, route.observation_format)
        if route.task is not None:
            observation = f"{reply.text(route.task)}\n{observation}"
        if self._routes.choices is not None:
            choices = await self.call(self._routes.choices, self._named(session))
            return self._listing(observation, choices, self._routes.choices.choices)
        return self._listing(observation, reply, route.choices)

    async def step(self, session: SessionId, action: str) -> StepReply:
        """Execute one action."""
        route = self._routes.step
        reply = await self.call(route, {**self._named(session), route.action_field: action + route.action_suffix})
        reward, done = reply.number(route.reward, null=route.null_reward), reply.flag(route.done)
        counts = done or not route.reward_when_done
        observation = self._listing(reply.shown(route.observation, route.observation_format), reply, None if done else route.choices)
        return StepReply(observation=observation, reward=reward if counts else 0.0, done=done)

    async def observe(self, session: SessionId) -> str:
        """The last observation; SERVER_4XX where the dialect has no such route."""
        route = self._has(self._routes.observe, "observe")
        return (await self.call(route, self._named(session))).shown(route.observation, route.observation_format)

    async def oracle(self, session: SessionId) -> tuple[str, ...]:
        """Actions that solve the task from its start; SERVER_4XX where the dialect has no such route."""
        route = self._has(self._routes.oracle, "oracle")
        return (await self.call(route, self._named(session))).texts(route.actions)

    async def verify(self, session: SessionId) -> bool:
        """Whether the session's state satisfies its task; SERVER_4XX where the dialect has no such route."""
        route = self._has(self._routes.verify, "verify")
        return (await self.call(route, self._named(session))).flag(route.success)

    async def close(self, session: SessionId) -> None:
        """Release a session; nothing where the dialect has no such route. REPORTED_ERROR when the server says that it did not."""
        route = self._routes.close
        if self._sockets is not None:
            await self._sockets.close(session, None if route is None else route.call, seconds=self._seconds)
        if route is None or route.closed is None:
            return
        reply = await self.call(route, self._named(session))
        if not route.closed.holds(200, reply.body):
            raise EnvFailure(InfraCause.REPORTED_ERROR, f"{reply.where}: expected the session to be closed, got {shortened(reply.body)}")

    async def send(self, route: Route, content: bytes | AsyncIterable[bytes], *, content_type: str = "application/json") -> RawReply:
        """One call of a route with a body of whatever bytes; its reply as it came. For a probe that sends broken requests."""
        target = self._targets[route.call]
        headers = httpx.Headers({**self._headers, "content-type": content_type})
        return await exchange(self._http, httpx.Request(target.method, target.url, headers=headers, content=content), seconds=self._seconds)

    def _listing(self, observation: str, reply: Reply, choices: str | None) -> str:
        """An observation with a line behind it that lists what can be said, where a reply does."""
        if choices is None:
            return observation
        return f"{observation}\n{self.dialect.spec.choices_say.replace('{}', ', '.join(reply.texts(choices)))}"

    def _named(self, session: SessionId) -> dict[str, Json]:
        return {self.dialect.spec.session.field: session}

    def _has(self, route: R | None, name: str) -> R:
        if route is None:
            raise EnvFailure(InfraCause.SERVER_4XX, f"{name} at {self.url}: expected a route in dialect {self.dialect.spec.name}, got none")
        return route

    async def call(self, route: Route, fields: Mapping[str, Json]) -> Reply:
        """One call of a route, whatever its fields hold; the reply, once it reports no error."""
        session = fields.get(self.dialect.spec.session.field)
        raw = await self._sent(route.call, {**route.send, **fields}, seconds=self.oracle_seconds if isinstance(route, OracleRoute) else self._seconds)
        where = f"{route.call} at {self.url}" if session is None else f"{route.call} at {self.url}, session {shortened(session)}"
        not_errors = route.not_errors if isinstance(route, StepRoute) else ()
        full = self.dialect.spec.session.full
        return _accepted(raw, where, errors=(*route.errors, *self.dialect.spec.errors), not_errors=not_errors, full=full)

    async def _sent(self, call: str, fields: dict[str, Json], *, seconds: float) -> RawReply:
        if self._sockets is None:
            return await exchange(self._http, self._request(call, fields), seconds=seconds)
        session = fields.pop(self.dialect.spec.session.field)
        return await self._sockets.ask(session, call, fields, seconds=seconds)

    async def _connect(self, sockets: Sockets) -> SessionId:
        """Open a connection and make the create call over it, so that a server which is full says so now."""
        session = await sockets.open(seconds=self._seconds)
        try:
            await self.call(self._routes.create, self._named(session))
        except (EnvFailure, asyncio.CancelledError):
            await sockets.close(session, None, seconds=self._seconds)
            raise
        return session

    def _request(self, call: str, fields: Mapping[str, Json]) -> Call:
        target = self._targets[call]
        if target.method == "GET":
            url = target.url.copy_merge_params({key: _query(value) for key, value in fields.items()})
            return Call(Target(target.method, url, self._headers))
        return Call(target, encoded(fields))

    def _target(self, call: str) -> Target:
        method, path = call.split(" ", 1)
        return Target(method, httpx.URL(self.url + path), self._headers)


def _accepted(raw: RawReply, where: str, *, errors: tuple[Match, ...], not_errors: tuple[Match, ...], full: Match | None) -> Reply:
    body, broken = _json_or_text(raw)
    if full is not None and full.holds(raw.status, body):
        raise EnvFailure(InfraCause.REPORTED_ERROR, f"{where}: expected room for a session, got none: {_FULL}. It said {shortened(body)}")
    if any(error.holds(raw.status, body) for error in errors) and not any(answer.holds(raw.status, body) for answer in not_errors):
        raise EnvFailure(InfraCause.REPORTED_ERROR, f"{where}: expected an answer, got the error {shortened(body)} (HTTP {raw.status})")
    if not 200 <= raw.status < 300:
        cause = {4: InfraCause.SERVER_4XX, 5: InfraCause.SERVER_5XX}.get(raw.status // 100, InfraCause.PROTOCOL)
        raise EnvFailure(cause, f"{where}: expected HTTP 2xx, got {raw.status} {shortened(body)}")
    if raw.unasked:
        raise EnvFailure(InfraCause.PROTOCOL, f"{where}: expected the server to wait for a call, got {shortened(body)} before it")
    if broken is not None:
        raise EnvFailure(InfraCause.PROTOCOL, f"{where}: expected JSON, got {shortened(body)} ({broken})")
    return Reply(where, body)


def _json_or_text(raw: RawReply) -> tuple[Json, str | None]:
    """The document and None, or the body as text and why it is no JSON."""
    try:
        return orjson.loads(raw.body), None
    except orjson.JSONDecodeError as err:
        return _text(raw), str(err)


def _text(raw: RawReply) -> str:
    return raw.body.decode("utf-8", errors="replace")


def _query(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
