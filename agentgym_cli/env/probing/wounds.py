"""What a server survives: requests that are broken, too large, or full of text that means something elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import orjson

from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet
from agentgym_cli.env.pointer import Json
from agentgym_cli.env.probing.play import LOST, NONSENSE, TOLD, over_http, same_start
from agentgym_cli.env.reply import SessionId, shortened

_LARGE = 1_000_000
"""Characters of an action that is too long."""
_MARK = "agentgym"
_HOSTILE = (
    f"\x1b[31m\x07{_MARK}\x1b[0m",
    f"<script>alert('{_MARK}')</script>&amp;",
    f"[bold red]{_MARK}[/]",
    f"\u202e{_MARK}\u2066\x00\x7f",
    f'"}}{{\\n"{_MARK}": %s${{0}}',
)
"""What would colour a terminal, run in a browser, be markup to a printer of tables, turn a line round, or break a document apart."""


class _Cut(Exception):
    """A request that breaks off."""


async def recovery(bench: Bench) -> str:
    """After a request that is no JSON, has another content type or breaks off, the next good one is answered as ever."""
    endpoint, route = over_http(bench), bench.spec.routes.step
    async with bench.sessions(1) as [session]:
        await endpoint.reset(session, bench.first_task)
        good = orjson.dumps(_step_fields(bench, session, bench.spec.probe_actions[0]))
        broken: dict[str, tuple[bytes | AsyncIterable[bytes], str]] = {
            "a body that is no JSON": (good[:-1], "application/json"),
            "a body that is no text": (b"\xff\xfe\x00{", "application/json"),
            "another content type": (good, "text/plain"),
            "a request that breaks off": (_broken_off(good), "application/json"),
        }
        said = []
        for what, (content, content_type) in broken.items():
            try:
                said.append(f"HTTP {(await endpoint.send(route, content, content_type=content_type)).status}")
            except EnvFailure as failure:
                said.append(failure.cause.value)
            except _Cut:
                said.append("cut")
            await _as_ever(bench, session, f"after {what}")
    return f"the next request is answered; the broken ones: {', '.join(said)}"


async def oversized(bench: Bench) -> str:
    """An action of a megabyte is answered or refused, and the server goes on."""
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, bench.first_task)
        try:
            reply = await bench.endpoint.step(session, "x" * _LARGE)
            how = f"answered with {len(reply.observation)} characters"
        except EnvFailure as failure:
            # A server may stop reading and hang up, which cannot be told from a refusal; that it lives is seen below.
            if failure.cause not in (*TOLD, InfraCause.RESET):
                finding = f"expected an action of {_LARGE} characters to be answered or refused, got {failure.cause.value}: {failure}"
                raise NotMet(finding) from failure
            how = f"refused: {failure.cause.value}"
    async with bench.sessions(1) as [session]:
        await _as_ever(bench, session, f"after an action of {_LARGE} characters")
    return how


async def hostile_text(bench: Bench) -> str:
    """Control characters and markup in an action harm nobody, and where they come back they are text."""
    usual = await _cause(bench, NONSENSE)
    echoed = exact = 0
    async with bench.sessions(1) as [session]:
        for text in _HOSTILE:
            await bench.endpoint.reset(session, bench.first_task)
            try:
                observation = (await bench.endpoint.step(session, text)).observation
            except EnvFailure as failure:
                if failure.cause in LOST:
                    raise
                if failure.cause not in (*TOLD, usual):
                    raise NotMet(f"expected {shortened(text)} to be answered or refused, got {failure.cause.value}: {failure}") from failure
                continue
            echoed += _MARK in observation
            exact += text in observation
        await _as_ever(bench, session, "after text with control characters")
    if not echoed:
        raise NotApplicable("no action comes back in an observation")
    return f"{echoed} of {len(_HOSTILE)} texts come back, {exact} of them to the letter"


async def _as_ever(bench: Bench, session: SessionId, when: str) -> None:
    """Raises NotMet when the session does not start its task as before."""
    try:
        expected = await bench.first_observation(bench.first_task)
        got = await bench.endpoint.reset(session, bench.first_task)
    except EnvFailure as failure:
        raise NotMet(f"expected the next good request to be answered {when}, got {failure.cause.value}: {failure}") from failure
    same_start(bench.first_task, expected, got, when)


async def _cause(bench: Bench, action: str) -> InfraCause | None:
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, bench.first_task)
        try:
            await bench.endpoint.step(session, action)
        except EnvFailure as failure:
            return failure.cause
    return None


def _step_fields(bench: Bench, session: SessionId, action: str) -> dict[str, Json]:
    route = bench.spec.routes.step
    return {**route.send, bench.spec.session.field: session, route.action_field: action + route.action_suffix}


async def _broken_off(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]
    raise _Cut
