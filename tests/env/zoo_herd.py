"""Servers with one fault that shows between sessions, under load or with time: the healthy TextCraft, with something wrong in what it keeps."""

from __future__ import annotations

import asyncio
import itertools
import os
import random

from tests.env.cage import Answer, Asked, Healthy, Server, textcraft


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
        return Answer(b'{"error":"The server is full: 200 sessions are open."}') if full else await healthy(asked)

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


def forgets_when_idle() -> Server:
    """Loses sessions that nobody has used for ten seconds."""
    return Healthy(textcraft(idle_seconds=10.0, clock=lambda: asyncio.get_running_loop().time()))


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


def never_recovers() -> Server:
    """Answers HTTP 503 to everything after a body that is no JSON."""
    healthy, broken = Healthy(), False

    async def answer(asked: Asked) -> Answer:
        nonlocal broken
        said = Answer(b"Service Unavailable", 503) if broken else await healthy(asked)
        broken = broken or b"json_invalid" in said.body
        return said

    return answer


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


def _renamed(asked: Asked, alias: dict[int, int]) -> Asked:
    if asked.method == "GET" and asked.query.startswith(b"id="):
        return Asked(method="GET", path=asked.path, query=b"id=%d" % alias.get(int(asked.query[3:]), -1), body=b"")
    return asked.saying(id=alias.get(asked.session, -1)) if asked.session != -1 else asked


def _other_order(prompt: str) -> str:
    first, *commands = prompt.split("\n\n")[0].splitlines()
    return "\n".join([first, *reversed(commands)]) + prompt[prompt.index("\n\n") :]
