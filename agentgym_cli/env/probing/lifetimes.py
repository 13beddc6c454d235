"""What becomes of sessions: their ids stay their own, their memory is given back, and an idle one is still there."""

from __future__ import annotations

import asyncio
import time

from agentgym_cli.env.contract import EnvFailure
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet, answered
from agentgym_cli.env.memory import ServerProcess, find_server
from agentgym_cli.env.probing.play import LOST, alone, play, same_reply, same_start
from agentgym_cli.env.reply import SessionId, shortened

_BATCH = 16
_KEPT_BYTES = 32 * 1024
"""Memory that each closed session may leave behind; less cannot be told from what an allocator keeps."""
_LEAST_GROWTH = 8 * 1024 * 1024
_LEAST_CYCLES = 50
"""Cycles after the warm-up from which on growth means something."""


async def id_recycling(bench: Bench) -> str:
    """The id of a session that is held is given to no other, nor that of one that was closed, and the session goes on as if it were alone."""
    index, actions = bench.first_task, bench.spec.probe_actions
    expected = await alone(bench, index, actions)
    async with bench.sessions(1) as [held]:
        same_start(index, await bench.first_observation(index), await bench.endpoint.reset(held, index), "in a session that is held")
        made = await _made_beside(bench, held)
        for action, reply in zip(actions, expected, strict=False):
            same_reply(action, reply, await bench.endpoint.step(held, action), f"after {made} other sessions were made")
    return f"{made} sessions made beside one that is held"


async def _made_beside(bench: Bench, held: SessionId) -> int:
    """How many sessions were made, a few at a time, while one is held. Raises NotMet when an id comes again."""
    used, made, began = {held}, 0, time.monotonic()
    batch = max(1, min(_BATCH, bench.effort.creates // 2, bench.room - 1))
    releasable = bench.spec.routes.close is not None
    while made == 0 or (releasable and made < bench.effort.creates and time.monotonic() - began < bench.effort.seconds):
        async with bench.sessions(batch) as sessions:
            for session in sessions:
                if session in used:
                    whose = "the session that is held" if session == held else "an earlier session"
                    raise NotMet(f"expected ids that are never given twice, got {shortened(session)}, that of {whose}, after {made} sessions")
                used.add(session)
            other = bench.indices(2)[-1]
            answered(await asyncio.gather(*(bench.endpoint.reset(session, other) for session in sessions), return_exceptions=True))
        made += len(sessions)
    return made


async def leak(bench: Bench) -> str:
    """Sessions that are closed leave nothing behind: new ones can be made, and a server on this machine does not grow."""
    if bench.spec.routes.close is None:
        raise NotApplicable("the dialect has no such route as close")
    process = await asyncio.to_thread(find_server, bench.endpoint.url)
    half, began = bench.effort.seconds / 2, time.monotonic()
    warm = await _cycles(bench, bench.effort.cycles // 2, began + half, done=0)
    before = process.resident_bytes() if process is not None else None
    further = await _cycles(bench, bench.effort.cycles - warm, began + 2 * half, done=warm)
    said = f"{warm + further} sessions made and closed"
    return f"{said}; {_growth(process, before, further)}"


async def _cycles(bench: Bench, count: int, until: float, *, done: int) -> int:
    """How many of ``count`` sessions were made, started and closed until then. Raises NotMet where one cannot be made any more."""
    for number in range(count):
        if number and time.monotonic() > until:
            return number
        try:
            async with bench.sessions(1) as [session]:
                await bench.endpoint.reset(session, bench.first_task)
        except EnvFailure as failure:
            finding = f"expected a session like every one before, got {failure.cause.value} after {done + number} were made and closed: {failure}"
            raise NotMet(finding) from failure
    return count


def _growth(process: ServerProcess | None, before: int | None, cycles: int) -> str:
    """What became of the server's memory over ``cycles`` sessions. Raises NotMet where it grew with every one."""
    after = process.resident_bytes() if process is not None else None
    if process is None or before is None or after is None:
        return "memory not seen: the server is not a process of this user on this machine"
    if cycles < _LEAST_CYCLES:
        return f"memory not judged: {cycles} sessions after the warm-up are too few"
    grown = after - before
    said = f"memory of {process.name} grew by {grown / 2**20:.1f} MiB over the last {cycles}"
    if grown > max(_LEAST_GROWTH, _KEPT_BYTES * cycles):
        raise NotMet(f"expected closed sessions to leave less than {_KEPT_BYTES // 1024} KiB each behind, got this: {said} sessions")
    return said


async def idle_expiry(bench: Bench) -> str:
    """A session that nobody used for a while is still there, as it was."""
    index, actions = bench.first_task, bench.spec.probe_actions
    expected, seconds = await alone(bench, index, actions), bench.idle_seconds
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, index)
        before = await play(bench.endpoint, session, actions[:1])
        await asyncio.sleep(seconds)
        try:
            replies = [*before, *await play(bench.endpoint, session, actions[1 : len(expected)] or actions)]
        except EnvFailure as failure:
            if failure.cause in LOST:
                raise
            finding = f"expected a session to live through {seconds:g} s without a call, got {failure.cause.value}: {failure}"
            raise NotMet(finding) from failure
        for action, one, other in zip(actions, expected, replies, strict=False):
            same_reply(action, one, other, f"after {seconds:g} s without a call")
    return f"alive after {seconds:g} s without a call"
