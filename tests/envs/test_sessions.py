"""Sessions: bounded, forgotten when idle, one call at a time, always released."""

from __future__ import annotations

import asyncio

import pytest

from agentgym_envs.protocol import WorldError
from agentgym_envs.sessions import Sessions
from tests.envs.servers import ManualClock, SlowSession, SlowWorld, answered, client_of, entered

ID_0_GONE = {"error": "The id 0 is not valid."}


async def test_mended_one_session_more_than_the_limit_is_refused_until_one_closes() -> None:
    async with client_of(max_sessions=2) as client:
        for _ in range(2):
            await answered(client, "/create")
        refused = {"error": "The server is full: 2 sessions are open. Close some, or start it with a larger --max-sessions."}
        assert await answered(client, "/create") == refused
        await answered(client, "/close", id=0)
        assert (await answered(client, "/create"))["id"] == 2  # type: ignore[index]


async def test_mended_an_idle_session_is_forgotten_and_a_used_one_is_not() -> None:
    clock = ManualClock()
    async with client_of(idle_seconds=10.0, clock=clock) as client:
        for _ in range(2):
            await answered(client, "/create")
        clock.now = 9.0
        await answered(client, "/step", id=1, action="inventory")
        clock.now = 10.0
        assert await answered(client, "/step", id=0, action="inventory") != ID_0_GONE
        clock.now = 20.5
        assert await answered(client, "/step", id=0, action="inventory") == ID_0_GONE
        assert (await client.get("/observation?id=1")).json() == {"error": "The id 1 is not valid."}


async def test_idle_sessions_make_room() -> None:
    clock = ManualClock()
    async with client_of(max_sessions=1, idle_seconds=10.0, clock=clock) as client:
        await answered(client, "/create")
        clock.now = 11.0
        assert (await answered(client, "/create"))["id"] == 1  # type: ignore[index]


async def test_looking_at_a_session_does_not_keep_it() -> None:
    clock = ManualClock()
    async with client_of(idle_seconds=10.0, clock=clock) as client:
        await answered(client, "/create")
        clock.now = 9.0
        assert (await client.get("/detail?id=0")).json()["done"] is False
        clock.now = 11.0
        assert (await client.get("/detail?id=0")).json() == ID_0_GONE


async def test_mended_calls_on_one_session_never_interleave() -> None:
    world = SlowWorld()
    async with client_of(world) as client:
        await answered(client, "/create")
        steps = [asyncio.ensure_future(answered(client, "/step", id=0, action=name)) for name in "abc"]
        await entered(world)
        world.gate.set()
        said = [reply["observation"] for reply in await asyncio.gather(*steps)]  # type: ignore[index]
    assert said == ["a, 1 inside", "b, 1 inside", "c, 1 inside"]


async def test_a_slow_call_holds_up_no_other_session() -> None:
    world = SlowWorld()
    async with client_of(world) as client:
        for _ in range(2):
            await answered(client, "/create")
        held = asyncio.ensure_future(answered(client, "/step", id=0, action="held"))
        await entered(world)
        assert (await answered(client, "/reset", id=1, data_idx=2))["observation"] == "task 2"  # type: ignore[index]
        assert not held.done()
        world.gate.set()
        await held


async def test_a_close_waits_for_the_call_in_flight_and_refuses_those_behind_it() -> None:
    world = SlowWorld()
    async with client_of(world) as client:
        await answered(client, "/create")
        first = asyncio.ensure_future(answered(client, "/step", id=0, action="first"))
        await entered(world)
        closing = asyncio.ensure_future(answered(client, "/close", id=0))
        for _ in range(100):
            await asyncio.sleep(0)
        assert world.closed == 0
        behind = asyncio.ensure_future(answered(client, "/step", id=0, action="behind"))
        assert await behind == ID_0_GONE
        world.gate.set()
        assert (await first, await closing) == ({"observation": "first, 1 inside", "reward": 0, "done": False}, True)
        assert world.closed == 1


async def test_a_session_in_a_call_is_not_idle() -> None:
    world, clock = SlowWorld(), ManualClock()
    async with client_of(world, idle_seconds=10.0, clock=clock) as client:
        await answered(client, "/create")
        held = asyncio.ensure_future(answered(client, "/step", id=0, action="held"))
        await entered(world)
        clock.now = 60.0
        await answered(client, "/create")
        world.gate.set()
        await held
        assert await answered(client, "/close", id=0) is True


async def test_every_session_is_released_when_the_server_ends() -> None:
    world = SlowWorld()
    async with client_of(world) as client:
        for _ in range(3):
            await answered(client, "/create")
        await answered(client, "/close", id=1)
        assert world.closed == 1
    assert world.closed == 3


async def test_a_session_that_cannot_be_opened_takes_no_room() -> None:
    world = SlowWorld(broken=True)
    async with client_of(world, max_sessions=1) as client:
        for _ in range(2):
            assert await answered(client, "/create") == {"error": "The world is broken."}
        world.broken = False
        assert (await answered(client, "/create"))["id"] == 2  # type: ignore[index]
    assert world.closed == 3


async def test_a_world_without_an_oracle_says_so() -> None:
    async with client_of(SlowWorld(), oracle=True) as client:
        await answered(client, "/create")
        assert (await client.get("/oracle?id=0")).json() == {"error": "This world has no oracle."}


def test_sessions_that_are_being_opened_count_against_the_limit() -> None:
    sessions = Sessions(most=1, idle_seconds=10.0, clock=ManualClock())
    assert sessions.reserve() == 0
    with pytest.raises(WorldError, match="full"):
        sessions.reserve()
    sessions.give_up()
    number = sessions.reserve()
    session = SlowSession(SlowWorld())
    sessions.add(number, session)
    assert (number, sessions.look(1).session) == (1, session)
