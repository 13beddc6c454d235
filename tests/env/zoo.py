"""Servers with one fault that a single session shows: the healthy TextCraft, with something wrong in one of its answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from tests.env.cage import TASK_COUNT, Answer, Asked, Healthy, Server, textcraft

Fault = Callable[[], Server]
"""Makes a server with the fault, and with sessions of its own."""

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
ELSEWHERE = b"http://elsewhere.invalid/"


def asleep() -> Server:
    """Answers the health route with HTTP 503."""
    return _on("/", lambda said: Answer(b"Service Unavailable", 503))


def says_nothing() -> Server:
    """Starts every task without a word."""
    return _on("/reset", lambda said: said.saying(observation=""))


def shows_stale() -> Server:
    """Repeats the first observation of all in place of the last."""
    return _on("/observation", lambda said: Answer(b'"Crafting commands:"'))


def answers_anybody() -> Server:
    """Makes a session up for every id that it does not know."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        said = await healthy(asked)
        unknown = asked.path in ("/step", "/reset") and b"is not valid" in said.body
        return Answer(b'{"observation":"Nothing happens.","reward":0,"done":false}') if unknown else said

    return answer


def keeps_open() -> Server:
    """Says that it did not close a session, and keeps it."""
    return _on("/close", lambda said: Answer(b"false"))


def crashes_on_second_close() -> Server:
    """Answers HTTP 500 where a session to close is not there."""
    return _on("/close", lambda said: Answer(b"Internal Server Error", 500) if said.body == b"false" else said)


def not_finite() -> Server:
    """Rewards with NaN."""
    return _step(lambda said: Answer(said.body.replace(b'"reward":0', b'"reward":NaN')))


def reward_string() -> Server:
    """Rewards with a string."""
    return _step(lambda said: said.saying(reward="0"))


def done_number() -> Server:
    """Says done as 0 or 1."""
    return _step(lambda said: said.saying(done=0))


def error_body() -> Server:
    """Answers every step with HTTP 200 and an error in place of the reply."""
    return _step(lambda said: _error("CUDA out of memory"))


def html_page() -> Server:
    """Answers every step with HTTP 200 and an HTML page."""
    return _step(lambda said: Answer(HTML, kind=b"text/html"))


def wrong_environment() -> Server:
    """Is BabyAI."""
    return _on("/", lambda said: Answer(b'"This is environment BabyAI."'))


def redirects() -> Server:
    """Sends whoever asks to another host."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        return Answer(b"", 307, headers=((b"location", ELSEWHERE),)) if asked.path == "/step" else await healthy(asked)

    return answer


def huge_body() -> Server:
    """Answers a step with 100 MB."""
    return _step(lambda said: said.saying(observation="x" * 100_000_000))


def rewords() -> Server:
    """Words every task a little otherwise, always in the same way."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        said = await healthy(asked)
        return Answer(said.body.replace(b"Crafting commands:", b"Commands:"), said.status)

    return answer


def other_order() -> Server:
    """Numbers its tasks from the end of each pair: 1, 0, 3, 2, and so on."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        known = asked.path == "/reset" and 0 <= asked.task < TASK_COUNT
        return await healthy(asked.saying(data_idx=asked.task ^ 1) if known else asked)

    return answer


def wraps_tasks() -> Server:
    """Takes task numbers modulo their count, and says nothing."""
    return Healthy(textcraft(wrap=True))


def crashes_on_unknown() -> Server:
    """Answers HTTP 500 where a session does not exist."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        said = await healthy(asked)
        return Answer(b"Internal Server Error", 500) if b"is not valid" in said.body else said

    return answer


def reads_any_session() -> Server:
    """Takes what is no session id for the session that was made last."""
    healthy, last = Healthy(), -1

    async def answer(asked: Asked) -> Answer:
        nonlocal last
        wrong = asked.path == "/step" and asked.session == -1
        said = await healthy(asked.saying(id=last) if wrong else asked)
        last = said.document["id"] if asked.path == "/create" else last
        return said

    return answer


def chokes_on_long() -> Server:
    """Answers HTTP 500 to an action longer than 4,000 characters."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        too_long = asked.path == "/step" and len(asked.body) > 4_000
        return Answer(b"Internal Server Error", 500) if too_long else await healthy(asked)

    return answer


def chokes_on_escapes() -> Server:
    """Answers HTTP 500 to an action with an escape character."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        escaped = asked.path == "/step" and "\x1b" in str(asked.fields.get("action"))
        return Answer(b"Internal Server Error", 500) if escaped else await healthy(asked)

    return answer


def terminal_escapes() -> Server:
    """Ends every answer to a step with escapes that would recolour a terminal, and with markup; this is no fault."""
    return _step(lambda said: said.saying(observation=f"{said.observation}\x1b[31m<script>alert(1)</script>\x07[bold]"))


def wrong_oracle() -> Server:
    """Tells actions that do not solve the task."""
    return _on("/oracle", lambda said: Answer(b'{"actions":["inventory"]}'))


def generous() -> Server:
    """Rewards an action that it does not know, and calls the task done."""
    return _step(lambda said: said.saying(reward=1, done=True))


def slow() -> Server:
    """Takes a second for every call; this is no fault."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        await asyncio.sleep(1)
        return await healthy(asked)

    return answer


def _on(path: str, change: Callable[[Answer], Answer]) -> Server:
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        said = await healthy(asked)
        return change(said) if asked.path == path else said

    return answer


def _step(change: Callable[[Answer], Answer]) -> Server:
    return _on("/step", change)


def _error(text: str) -> Answer:
    return Answer(b'{"error":"%s"}' % text.encode())


def command(animal: Fault) -> list[str]:
    """The command line that serves an animal as a process of its own, and says where as a server of ``env.launch`` does."""
    root = str(Path(__file__).parents[2])
    server = f"from {animal.__module__} import {animal.__name__} as animal"
    program = f"import sys; sys.path.insert(0, {root!r}); from tests.env.cage import keep; {server}; keep(animal())"
    return [sys.executable, "-c", program]
