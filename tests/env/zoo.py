"""A zoo of faulty servers: the healthy TextCraft with one fault each, and the checks of the probe that must name it."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

from tests.env.cage import TASK_COUNT, Answer, Asked, Healthy, Server, textcraft

Fault = Callable[[], Server]
"""Makes a server with the fault, and with sessions of its own."""

HTML = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
ELSEWHERE = b"http://elsewhere.invalid/"


def shares_ids() -> Server:
    """Hands out eight ids in turn, those of live sessions too."""
    healthy, made = Healthy(), 0

    async def answer(asked: Asked) -> Answer:
        nonlocal made
        said = await healthy(asked)
        if asked.path == "/create":
            said, made = said.saying(id=made % 8), made + 1
        return said

    return answer


def recycles_ids() -> Server:
    """Gives a new session the id of the one that was closed last."""
    healthy, free, alias = Healthy(), list[int](), dict[int, int]()

    async def answer(asked: Asked) -> Answer:
        said = await healthy(_renamed(asked, alias))
        if asked.path == "/create":
            real = said.document["id"]
            shown = free.pop() if free else real
            alias[shown] = real
            return said.saying(id=shown)
        if asked.path == "/close" and said.body == b"true":
            free.append(asked.session)
        return said.saying(id=asked.session) if asked.path == "/reset" else said

    return answer


def two_workers() -> Server:
    """Is two processes with sessions of their own behind one address, which take requests in turn."""
    workers = itertools.cycle([Healthy(), Healthy()])

    async def answer(asked: Asked) -> Answer:
        return await next(workers)(asked)

    return answer


def leaks_on_close() -> Server:
    """Says that a session is closed, and keeps it."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        return Answer(b"true") if asked.path == "/close" else await healthy(asked)

    return answer


def leaks_slots() -> Server:
    """Refuses the id of a closed session, and never frees its place: after 200 sessions none can be made."""
    healthy, made = Healthy(), 0

    async def answer(asked: Asked) -> Answer:
        nonlocal made
        made += asked.path == "/create"
        full = asked.path == "/create" and made > 200
        return _error("The server is full: 200 sessions are open.") if full else await healthy(asked)

    return answer


def grows() -> Server:
    """Keeps 256 KiB of every session for ever."""
    healthy, kept = Healthy(), list[bytearray]()

    async def answer(asked: Asked) -> Answer:
        if asked.path == "/create":
            kept.append(bytearray(os.urandom(1024) * 256))
        return await healthy(asked)

    return answer


def answers_after_close() -> Server:
    """Answers a step in a closed session with what it saw last."""
    healthy, last, closed = Healthy(), Answer(b'{"observation":"Could not execute","reward":0,"done":false}'), set[int]()

    async def answer(asked: Asked) -> Answer:
        nonlocal last
        said = await healthy(asked)
        if asked.path == "/close" and said.body == b"true":
            closed.add(asked.session)
        if asked.path != "/step":
            return said
        last = said if said.observation is not None else last
        return last if asked.session in closed else said

    return answer


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


def global_random_state() -> Server:
    """Orders the prompt by a generator that all sessions seed and share, so that resets at the same time disturb each other."""
    healthy, shared = Healthy(), random.Random(0)

    async def answer(asked: Asked) -> Answer:
        said = await healthy(asked)
        if asked.path != "/reset" or said.observation is None:
            return said
        shared.seed(asked.task)
        await asyncio.sleep(0)
        undisturbed = shared.random() == random.Random(asked.task).random()
        return said if undisturbed else said.saying(observation=_other_order(said.observation))

    return answer


def drifts() -> Server:
    """Words every prompt otherwise than the one before."""
    healthy, resets = Healthy(), 0

    async def answer(asked: Asked) -> Answer:
        nonlocal resets
        said = await healthy(asked)
        if asked.path != "/reset":
            return said
        resets += 1
        return said.saying(observation=f"{said.observation}{' ' * resets}")

    return answer


def done_comes_off() -> Server:
    """Goes on with done false after a task is done."""
    healthy, over = Healthy(), set[int]()

    async def answer(asked: Asked) -> Answer:
        if asked.path == "/step" and asked.session in over:
            return Answer(b'{"observation":"Inventory: You are not carrying anything.","reward":0,"done":false}')
        said = await healthy(asked)
        if asked.path == "/step" and b'"done":true' in said.body:
            over.add(asked.session)
        elif asked.path == "/reset":
            over.discard(asked.session)
        return said

    return answer


def looks_elsewhere() -> Server:
    """Executes a step, and shows what the session before saw."""
    healthy, previous = Healthy(), ("", -1)

    async def answer(asked: Asked) -> Answer:
        nonlocal previous
        said = await healthy(asked)
        if asked.path != "/step" or said.observation is None:
            return said
        (shown, who), previous = previous, (said.observation, asked.session)
        return said if who in (-1, asked.session) else said.saying(observation=shown)

    return answer


def plays_elsewhere() -> Server:
    """Executes every step in the session that was reset last."""
    healthy, current, ours = Healthy(), -1, set[int]()

    async def answer(asked: Asked) -> Answer:
        nonlocal current
        if asked.path == "/reset":
            current = asked.session
            ours.add(current)
        return await healthy(asked.saying(id=current) if asked.path == "/step" and asked.session in ours else asked)

    return answer


def two_faced() -> Server:
    """Is right alone, and gives another task when more than four requests are in flight."""
    healthy, flying = Healthy(), 0

    async def answer(asked: Asked) -> Answer:
        nonlocal flying
        flying += 1
        await asyncio.sleep(0)
        crowded = flying > 4 and asked.path == "/reset"
        try:
            return await healthy(asked.saying(data_idx=asked.task + 1) if crowded else asked)
        finally:
            flying -= 1

    return answer


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


def forgets_when_idle() -> Server:
    """Loses sessions that nobody has used for ten seconds."""
    return Healthy(textcraft(idle_seconds=10.0, clock=lambda: asyncio.get_running_loop().time()))


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


def never_recovers() -> Server:
    """Answers HTTP 503 to everything after a body that is no JSON."""
    healthy, broken = Healthy(), False

    async def answer(asked: Asked) -> Answer:
        nonlocal broken
        said = Answer(b"Service Unavailable", 503) if broken else await healthy(asked)
        broken = broken or b"json_invalid" in said.body
        return said

    return answer


def chokes_on_long() -> Server:
    """Answers HTTP 500 to an action longer than 4,000 characters."""
    healthy = Healthy()

    async def answer(asked: Asked) -> Answer:
        too_long = asked.path == "/step" and len(asked.body) > 4_000
        return Answer(b"Internal Server Error", 500) if too_long else await healthy(asked)

    return answer


def refuses_a_crowd() -> Server:
    """Answers HTTP 503 to resets while more than 24 requests are in flight."""
    healthy, flying = Healthy(), 0

    async def answer(asked: Asked) -> Answer:
        nonlocal flying
        flying += 1
        await asyncio.sleep(0)
        crowded = flying > 24 and asked.path in ("/reset", "/step")
        try:
            return Answer(b"Service Unavailable", 503) if crowded else await healthy(asked)
        finally:
            flying -= 1

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


def dies() -> Server:
    """Ends its process at the thirtieth step."""
    healthy, steps = Healthy(), 0

    async def answer(asked: Asked) -> Answer:
        nonlocal steps
        steps += asked.path == "/step"
        if steps >= 30:
            os._exit(1)
        return await healthy(asked)

    return answer


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


def _renamed(asked: Asked, alias: dict[int, int]) -> Asked:
    if asked.method == "GET" and asked.query.startswith(b"id="):
        return Asked(method="GET", path=asked.path, query=b"id=%d" % alias.get(int(asked.query[3:]), -1), body=b"")
    return asked.saying(id=alias.get(asked.session, -1)) if asked.session != -1 else asked


def _other_order(prompt: str) -> str:
    first, *commands = prompt.split("\n\n")[0].splitlines()
    return "\n".join([first, *reversed(commands)]) + prompt[prompt.index("\n\n") :]


def command(animal: Fault) -> list[str]:
    """The command line that serves an animal as a process of its own, and says where as a server of ``env.launch`` does."""
    root = str(Path(__file__).parents[2])
    program = f"import sys; sys.path.insert(0, {root!r}); from tests.env import cage, zoo; cage.keep(zoo.{animal.__name__}())"
    return [sys.executable, "-c", program]
