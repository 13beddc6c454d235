"""What a server must not answer: sessions that are not there, values of the wrong type, sessions that were closed."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.dialect_schema import DialectSpec
from agentgym_cli.env.endpoint import Route
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet
from agentgym_cli.env.pointer import Json
from agentgym_cli.env.probing.play import LOST, NONSENSE, TOLD, over_http, refused, same_start
from agentgym_cli.env.reply import SessionId, shortened

_NO_SESSION: dict[type, SessionId] = {int: 1_999_999_973, str: "agentgym-no-such-session"}
_NO_SESSIONS: tuple[Json, ...] = (None, [], {}, "agentgym")
"""Values that name no session of any server."""
_NO_ACTIONS: tuple[Json, ...] = (None, 7, {"action": []})
_NO_TASKS: tuple[Json, ...] = ("agentgym", None, [0], 0.5)


async def unknown_session(bench: Bench) -> str:
    """A session that does not exist is refused, never answered."""
    return f"refused: {(await _refusal(bench)).cause.value}"


async def error_style(bench: Bench) -> str:
    """The refusal can be told from a crash: a reported error or HTTP 4xx."""
    failure = await _refusal(bench)
    if failure.cause not in TOLD:
        raise NotMet(f"expected an unknown session to be a reported error or HTTP 4xx, got {failure.cause.value}: {failure}")
    return failure.cause.value


async def wrong_types(bench: Bench) -> str:
    """A session id, an action or a task of another type is refused or read as a value of the right one, and no session suffers."""
    endpoint = over_http(bench)
    pair = bench.indices(2)
    first, second = pair[0], pair[-1]
    async with bench.sessions(2) as [one, other]:
        await endpoint.reset(one, first)
        await endpoint.reset(other, second)
        said = {what: await _ruled(what, endpoint.call(route, fields)) for what, route, fields in _of_wrong_type(bench.spec, one)}
        for session, index in ((one, first), (other, second)):
            try:
                again = await endpoint.reset(session, index)
            except EnvFailure as failure:
                raise NotMet(f"expected sessions to live on after values of the wrong type, got {failure.cause.value}: {failure}") from failure
            same_start(index, await bench.first_observation(index), again, "after values of the wrong type")
    coerced = ", ".join(what for what, refusal in said.items() if refusal is None)
    crashed = ", ".join(what for what, refusal in said.items() if refusal is not None and refusal.cause is InfraCause.SERVER_5XX)
    told = "".join(f"; {how}: {what}" for how, what in (("with HTTP 5xx", crashed), ("read as a value", coerced)) if what)
    return f"{sum(refusal is not None for refusal in said.values())} of {len(said)} refused{told}"


async def close(bench: Bench) -> str:
    """A session can be closed."""
    if bench.spec.routes.close is None:
        raise NotApplicable("the dialect has no such route; sessions last as long as the server")
    await _closed_session(bench)
    return "closed"


async def double_close(bench: Bench) -> str:
    """A second close does no harm."""
    if bench.spec.routes.close is None:
        raise NotApplicable("the dialect has no such route")
    over_http(bench)
    session = await _closed_session(bench)
    try:
        await bench.endpoint.close(session)
    except EnvFailure as failure:
        if failure.cause in TOLD:
            return f"refused: {failure.cause.value}"
        raise NotMet(f"expected a second close to be refused or accepted, got {failure.cause.value}: {failure}") from failure
    return "accepted"


async def use_after_close(bench: Bench) -> str:
    """A closed session answers no step and no reset."""
    if bench.spec.routes.close is None:
        raise NotApplicable("the dialect has no such route")
    over_http(bench)
    session = await _closed_session(bench)
    step = await refused("a step in a closed session", bench.endpoint.step(session, NONSENSE))
    reset = await refused("a reset of a closed session", bench.endpoint.reset(session, bench.first_task))
    return f"refused: {', '.join(dict.fromkeys((step.cause.value, reset.cause.value)))}"


async def _refusal(bench: Bench) -> EnvFailure:
    """How a step in a session that does not exist is refused, after a reset in it was."""
    over_http(bench)
    async with bench.sessions(1) as [session]:
        nobody = _NO_SESSION[type(session)]
    await refused("a reset in a session that does not exist", bench.endpoint.reset(nobody, bench.first_task))
    return await refused("a step in a session that does not exist", bench.endpoint.step(nobody, NONSENSE))


async def _closed_session(bench: Bench) -> SessionId:
    session = await bench.endpoint.create()
    await bench.endpoint.reset(session, bench.first_task)
    await bench.endpoint.close(session)
    return session


def _of_wrong_type(spec: DialectSpec, session: SessionId) -> Iterator[tuple[str, Route, dict[str, Json]]]:
    """Calls with one value of a wrong type: what it is, the route and its fields."""
    step, reset, name = spec.routes.step, spec.routes.reset, spec.session.field
    for wrong in _NO_SESSIONS:
        yield f"session {shortened(wrong)}", step, {**step.send, name: wrong, step.action_field: spec.probe_actions[0]}
    for wrong in _NO_ACTIONS:
        yield f"action {shortened(wrong)}", step, {**step.send, name: session, step.action_field: wrong}
    for wrong in _NO_TASKS:
        yield f"task {shortened(wrong)}", reset, {**reset.send, name: session, reset.task_field: wrong}


async def _ruled(what: str, call: Awaitable[object]) -> EnvFailure | None:
    """The refusal, a crash included, or None where the value was read as one of the right type. Raises NotMet for an answer to no session."""
    try:
        answer = await call
    except EnvFailure as failure:
        if failure.cause in LOST:
            raise
        return failure
    if what.startswith("session"):
        raise NotMet(f"expected {what} to be refused, got the answer of some session: {shortened(answer)}")
    return None
