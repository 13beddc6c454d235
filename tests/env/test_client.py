"""Sessions: one call at a time, done once, closed once, each with its replica."""

from __future__ import annotations

import asyncio
import itertools
import logging
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest

from agentgym_cli.env.client import HttpEnvClient, HttpEnvSession, build_http
from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.dialect import load_dialect
from tests.env.toy_world import URL, ToyWorld, prompt
from tests.env.upstream_worlds import Upstream

TEXTCRAFT = load_dialect("textcraft")


def client_of(world: ToyWorld, **options) -> HttpEnvClient:
    return HttpEnvClient(world.http(), TEXTCRAFT, [URL], **options)


async def test_an_episode_from_reset_to_done():
    world = ToyWorld()
    client = client_of(world)
    session = await client.open()
    assert await session.reset(3) == prompt(3)
    assert await session.oracle() == ("get 2 part", "craft item3")
    replies = [await session.step(action) for action in ("get 2 part", "craft item3")]
    assert [(reply.observation, reply.reward, reply.done) for reply in replies] == [("Got 2 part", 0.0, False), ("Crafted item3", 1.0, True)]
    await session.close()
    assert world.sessions == {}
    await client.aclose()


async def test_promise_02_done_latches_whatever_the_server_would_say():
    world = ToyWorld()
    session = await client_of(world).open()
    await session.reset(0)
    for action in await session.oracle():
        await session.step(action)
    with pytest.raises(AssertionError, match="after done"):
        await session.step("inventory")
    assert world.calls.count("step") == 2
    assert await session.reset(1) == prompt(1)
    assert (await session.step("inventory")).done is False


async def test_a_step_before_a_reset_is_our_mistake():
    session = await client_of(ToyWorld()).open()
    with pytest.raises(AssertionError, match="before reset"):
        await session.step("inventory")


async def test_sessions_go_round_the_replicas_and_stay():
    hosts: list[tuple[str, str]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        hosts.append((request.url.host, request.url.path))
        return httpx.Response(200, json={"id": len(hosts), "observation": "o", "reward": 0, "done": False})

    client = HttpEnvClient(build_http(transport=httpx.MockTransport(handler)), TEXTCRAFT, ["http://a", "http://b/", "http://c"])
    sessions = [await client.open() for _ in range(4)]
    assert [session.replica for session in sessions] == ["http://a", "http://b", "http://c", "http://a"]
    hosts.clear()
    for session in sessions:
        await session.reset(0)
        await session.step("x")
    assert [host for host, _ in hosts] == ["a", "a", "b", "b", "c", "c", "a", "a"]


async def test_a_session_opens_on_the_replica_with_the_fewest():
    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, json=True if request.url.path == "/close" else {"id": next(numbers), "observation": "o", "reward": 0, "done": False}
        )

    numbers = itertools.count()
    client = HttpEnvClient(build_http(transport=httpx.MockTransport(handler)), TEXTCRAFT, ["http://a", "http://b", "http://c"])
    sessions = [await client.open() for _ in range(6)]
    for ended in (sessions[1], sessions[4], sessions[2]):
        await ended.close()
    assert [(await client.open()).replica for _ in range(3)] == ["http://b", "http://c", "http://b"]


async def test_a_replica_that_refuses_is_asked_no_more_often_than_the_others():
    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(503) if request.url.host == "a" else httpx.Response(200, json={"id": len(asked)})

    asked: list[str] = []
    client = HttpEnvClient(build_http(transport=httpx.MockTransport(handler)), TEXTCRAFT, ["http://a", "http://b"])
    for _ in range(6):
        with suppress(EnvFailure):
            await client.open()
    assert asked == ["a", "b"] * 3


async def test_a_failed_step_is_sent_once():
    for answer in (httpx.Response(503), httpx.ReadError("lost"), httpx.ReadTimeout("slow")):
        sent: list[str] = []

        def handler(request: httpx.Request, sent: list[str] = sent, answer: object = answer) -> httpx.Response:
            sent.append(request.url.path)
            if request.url.path == "/step":
                if isinstance(answer, Exception):
                    raise answer
                return answer
            return httpx.Response(200, json={"id": 1, "observation": "o"})

        session = await HttpEnvClient(build_http(transport=httpx.MockTransport(handler)), TEXTCRAFT, [URL]).open()
        await session.reset(0)
        with pytest.raises(EnvFailure):
            await session.step("x")
        assert sent == ["/create", "/reset", "/step"]


async def test_calls_on_one_session_wait_for_each_other():
    inside, most = 0, 0

    async def handler(request: httpx.Request) -> httpx.Response:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1
        return httpx.Response(200, json={"id": 1, "observation": "o", "reward": 0, "done": False})

    session = await HttpEnvClient(build_http(transport=httpx.MockTransport(handler)), TEXTCRAFT, [URL]).open()
    await session.reset(0)
    await asyncio.gather(*(session.step(str(number)) for number in range(8)))
    assert most == 1


async def test_a_session_is_closed_once():
    world = ToyWorld()
    session = await client_of(world).open()
    await asyncio.gather(session.close(), session.close())
    await session.close()
    assert world.calls.count("close") == 1


async def test_a_close_that_fails_is_logged_and_not_raised(caplog):
    world = ToyWorld()
    session = await client_of(world).open()
    world.sessions.clear()
    with caplog.at_level(logging.WARNING):
        await session.close()
        await session.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "session not closed (reported_error): POST /close at http://toy, session 0" in caplog.text


async def test_of_a_server_that_is_gone_one_session_is_said_not_to_be_closed(caplog):
    world = ToyWorld()
    client = client_of(world)
    sessions = [await client.open() for _ in range(5)]
    world.sessions.clear()
    with caplog.at_level(logging.DEBUG, logger="agentgym_cli.env.client"):
        for session in sessions:
            await session.close()
    assert [record.levelname for record in caplog.records] == ["WARNING", "DEBUG", "DEBUG", "DEBUG", "DEBUG"]


async def test_promise_02_a_session_of_a_server_that_ended_never_reaches_the_one_that_was_started_after_it():
    world = ToyWorld()
    client = client_of(world)
    old = await client.open()
    await old.reset(0)
    world.sessions.clear()
    world.opened = 0
    client.server_ended(URL, "ended by signal 9 (SIGKILL)", for_good=False)
    client.try_again(URL)
    new = await client.open()
    assert list(world.sessions) == [0], "the same id again"
    assert await new.reset(1) == prompt(1)
    with pytest.raises(EnvFailure) as caught:
        await old.step("get 2 part")
    assert (caught.value.cause, caught.value.message) == (
        InfraCause.RESET,
        "session 0 at http://toy: expected the server that made it, which has ended",
    )
    await old.close()
    assert world.calls.count("close") == 0
    with pytest.raises(EnvFailure, match="hands out ids again"):
        world.opened = 0
        await client.open()
    await new.close()


async def test_a_session_that_a_server_made_before_it_ended_is_not_used():
    world = ToyWorld()
    app = world.http().transport
    clients: list[HttpEnvClient] = []

    async def ending(request: httpx.Request) -> httpx.Response:
        reply = await app.handle_async_request(request)
        clients[0].server_ended(URL, "ended", for_good=False)
        return reply

    clients.append(HttpEnvClient(build_http(transport=httpx.MockTransport(ending)), TEXTCRAFT, [URL]))
    with pytest.raises(EnvFailure, match="got one that has ended since") as caught:
        await clients[0].open()
    assert caught.value.cause is InfraCause.RESET


async def test_a_hanging_step_is_a_timeout_and_the_session_can_still_be_closed():
    world = ToyWorld("hang")
    session = await client_of(world, call_seconds=0.05).open()
    await session.reset(0)
    with pytest.raises(EnvFailure) as caught:
        await session.step("inventory")
    assert caught.value.cause is InfraCause.TIMEOUT
    await session.close()
    assert world.sessions == {}


async def test_a_session_whose_creation_is_cancelled_is_closed_all_the_same():
    world = ToyWorld()
    asked, answer = asyncio.Event(), asyncio.Event()
    app = world.http().transport

    async def slow_create(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/create":
            asked.set()
            await answer.wait()
        return await app.handle_async_request(request)

    client = HttpEnvClient(build_http(transport=httpx.MockTransport(slow_create)), TEXTCRAFT, [URL])
    opening = asyncio.ensure_future(client.open())
    await asked.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    answer.set()
    await client.aclose()
    assert world.calls == ["create", "close"]
    assert world.sessions == {}


async def test_where_sessions_cannot_be_closed_nothing_is_sent():
    routes = replace(TEXTCRAFT.spec.routes, close=None)
    world = ToyWorld()
    session = await HttpEnvClient(world.http(), replace(TEXTCRAFT, spec=replace(TEXTCRAFT.spec, routes=routes)), [URL]).open()
    await session.close()
    assert world.calls == ["create"]


@pytest.mark.parametrize("call", ["oracle", "verify"])
async def test_a_route_that_the_dialect_lacks_is_a_4xx_without_a_call(call):
    routes = replace(TEXTCRAFT.spec.routes, oracle=None, verify=None)
    world = ToyWorld()
    session = await HttpEnvClient(world.http(), replace(TEXTCRAFT, spec=replace(TEXTCRAFT.spec, routes=routes)), [URL]).open()
    with pytest.raises(EnvFailure) as caught:
        await getattr(session, call)()
    assert caught.value.cause is InfraCause.SERVER_4XX
    assert world.calls == ["create"]


@pytest.mark.slow
async def test_many_episodes_at_once_each_see_their_own_world():
    world = ToyWorld()
    client = client_of(world)

    async def episode(index: int) -> tuple[str, bool]:
        session = await client.open()
        first = await session.reset(index)
        replies = [await session.step(action) for action in await session.oracle()]
        await session.close()
        return first, replies[-1].done

    assert await asyncio.gather(*map(episode, range(64))) == [(prompt(index), True) for index in range(64)]
    assert world.sessions == {}


async def open_nine(world: Upstream) -> tuple[HttpEnvClient, list[HttpEnvSession]]:
    """A client of a server that knows eight sessions, all of them open."""
    client = HttpEnvClient(world.http(), load_dialect(world.family), [URL])
    return client, [await client.open() for _ in range(8)]


@pytest.mark.parametrize("family", ["sqlgym", "webshop"])
async def test_promise_02_a_session_that_is_held_is_not_shared_and_stays_as_it_was(family):
    world = Upstream(family, ids=8)
    client, sessions = await open_nine(world)
    observations = [await session.reset(number) for number, session in enumerate(sessions)]
    with pytest.raises(EnvFailure) as caught:
        await client.open()
    assert caught.value.cause is InfraCause.PROTOCOL
    assert "expected a session of its own, got 0, which is still in use here" in str(caught.value)
    assert caught.value.hint == "run fewer episodes at once, or serve more replicas (env.urls)"
    assert len(set(observations)) == 8
    assert world.sessions[0].task == 0
    assert (await sessions[0].step("select 2")).observation == {"sqlgym": "[(2,)]"}.get(family, f"{observations[0]} [SEP] 1")


async def test_the_id_of_a_session_that_was_closed_may_come_again():
    client, sessions = await open_nine(Upstream("sqlgym", ids=8))
    await sessions[0].close()
    again = await client.open()
    assert await again.reset(5) == "shop contains tables such as item.\n\nWhat is item 5?"


async def test_the_same_id_on_another_replica_is_another_session():
    worlds = {"one": Upstream("sqlgym", ids=8), "two": Upstream("sqlgym", ids=8)}
    http = build_http(transport=httpx.MockTransport(lambda request: worlds[request.url.host].answer(request)))
    client = HttpEnvClient(http, load_dialect("sqlgym"), ["http://one", "http://two"])
    sessions = [await client.open() for _ in range(16)]
    assert len({id(session) for session in sessions}) == 16
    with pytest.raises(EnvFailure, match="still in use"):
        await client.open()


async def test_a_held_session_survives_when_an_open_that_got_its_id_is_cancelled():
    closes: list[str] = []
    gate = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/create":
            await gate.wait()
            return httpx.Response(200, json={"id": 7})
        closes.append(request.url.path)
        return httpx.Response(200, json=True)

    client = HttpEnvClient(build_http(transport=httpx.MockTransport(answer)), TEXTCRAFT, [URL])
    gate.set()
    await client.open()
    gate.clear()
    late = asyncio.ensure_future(client.open())
    await asyncio.sleep(0)
    late.cancel()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await late
    await client.aclose()
    assert closes == []
