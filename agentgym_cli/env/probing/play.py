"""How checks play: scripts, the oracle's words, and what two answers that must be the same differ in."""

from __future__ import annotations

from collections.abc import Awaitable

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply, content_digest
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet
from agentgym_cli.env.reply import SessionId, shortened

NONSENSE = "agentgym probe"
"""An action that no world knows."""
LOST = (InfraCause.CONNECT, InfraCause.TIMEOUT, InfraCause.RESET)
"""Causes that say nothing about what the server makes of a call."""
TOLD = (InfraCause.REPORTED_ERROR, InfraCause.SERVER_4XX)
"""Causes by which a server says that it refuses."""


def over_http(bench: Bench) -> Endpoint:
    """The endpoint, where requests can be broken on purpose. Raises NotApplicable where a session is a connection."""
    if bench.spec.socket is None:
        return bench.endpoint
    raise NotApplicable("a session is a connection here, which names it")


async def refused(what: str, call: Awaitable[object]) -> EnvFailure:
    """How the server refuses. Raises NotMet when it answers, EnvFailure when it does not answer at all."""
    try:
        answer = await call
    except EnvFailure as failure:
        if failure.cause in LOST:
            raise
        return failure
    raise NotMet(f"expected {what} to be refused, got {shortened(answer)}")


async def oracle_actions(bench: Bench, index: int) -> tuple[str, ...] | None:
    """The actions that solve a task, asked for once; None where the server does not tell them."""
    if index not in bench.oracles:
        bench.oracles[index] = await _ask_oracle(bench, index)
    return bench.oracles[index]


async def alone(bench: Bench, index: int, actions: tuple[str, ...]) -> list[StepReply]:
    """Replies to ``actions`` up to done, in a session of its own; played once."""
    if (index, actions) not in bench.played:
        async with bench.sessions(1) as [session]:
            await bench.endpoint.reset(session, index)
            bench.played[index, actions] = await play(bench.endpoint, session, actions)
    return bench.played[index, actions]


async def play(endpoint: Endpoint, session: SessionId, actions: tuple[str, ...]) -> list[StepReply]:
    """Replies to ``actions`` up to done."""
    replies: list[StepReply] = []
    for action in actions:
        replies.append(await endpoint.step(session, action))
        if replies[-1].done:
            break
    return replies


def same_start(index: int, expected: str, got: str, when: str) -> None:
    """Raises NotMet when the first observation of a task differs."""
    if got != expected:
        raise NotMet(
            f"task {index} differs {when}: expected {content_digest(expected)} {shortened(expected)}, got {content_digest(got)} {shortened(got)}"
        )


def same_reply(action: str, expected: StepReply, got: StepReply, when: str) -> None:
    """Raises NotMet when an action is answered otherwise."""
    if got != expected:
        raise NotMet(f"{action!r} is answered otherwise {when}: expected {shortened(expected)}, got {shortened(got)}")


async def _ask_oracle(bench: Bench, index: int) -> tuple[str, ...] | None:
    if bench.spec.routes.oracle is None:
        return None
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, index)
        try:
            return await bench.endpoint.oracle(session)
        except EnvFailure as failure:
            if failure.cause is InfraCause.SERVER_4XX:
                return None
            raise
