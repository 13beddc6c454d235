"""Time and size: calls past their deadline, threads that run out, bodies that do not come, and an end that nothing holds up."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

from agentgym_envs import app as app_module
from agentgym_envs import shell as shell_module
from agentgym_envs.app import build_app
from agentgym_envs.calls import Busy, Calls, TooSlow
from tests.envs.servers import SlowSession, SlowWorld, answered, client_of, entered, living, released

BROKEN = {"error": "The session 0 is broken: a call took longer than 0.25 seconds. Create another."}
GONE = {"error": "The id 0 is not valid."}


async def test_a_step_past_its_time_is_an_error_and_its_session_broken_until_the_call_ends() -> None:
    world = SlowWorld()
    async with client_of(world, call_seconds=0.25) as client:
        await answered(client, "/create")
        assert await answered(client, "/step", id=0, action="held") == BROKEN
        assert await answered(client, "/step", id=0, action="again") == BROKEN
        assert await answered(client, "/reset", id=0, data_idx=1) == BROKEN
        assert world.closed == 0, "the call still runs in it"
        world.gate.set()
        await released(world)
        assert await answered(client, "/step", id=0, action="later") == GONE
    assert (world.closed, world.over) == (1, 1)


async def test_an_oracle_may_take_five_times_as_long_as_another_call() -> None:
    world = SlowSearching()
    async with client_of(world, call_seconds=0.05, oracle=True) as client:
        await answered(client, "/create")
        # 0.25 seconds, as the message of the others says.
        assert (await client.get("/oracle?id=0")).json() == BROKEN
        world.gate.set()
        await released(world)


async def test_a_broken_session_keeps_its_room_until_its_call_ends_also_when_it_is_closed() -> None:
    world = SlowWorld()
    async with client_of(world, call_seconds=0.25, max_sessions=1) as client:
        await answered(client, "/create")
        assert await answered(client, "/step", id=0, action="held") == BROKEN
        assert [await answered(client, "/close", id=0) for _ in range(2)] == [True, False]
        assert await answered(client, "/step", id=0, action="closed") == GONE
        assert "The server is full" in (await answered(client, "/create"))["error"]  # type: ignore[index]
        world.gate.set()
        await released(world)
        assert (await answered(client, "/create"))["id"] == 1  # type: ignore[index]
    assert world.closed == 2


async def test_other_sessions_go_on_beside_a_broken_one() -> None:
    world = SlowWorld()
    async with client_of(world, call_seconds=0.25) as client:
        for _ in range(2):
            await answered(client, "/create")
        assert await answered(client, "/step", id=0, action="held") == BROKEN
        assert (await answered(client, "/reset", id=1, data_idx=2))["observation"] == "task 2"  # type: ignore[index]
        world.gate.set()


async def test_a_call_that_waited_behind_one_that_was_given_up_finds_the_session_broken() -> None:
    world = SlowWorld()
    async with client_of(world, call_seconds=0.25) as client:
        await answered(client, "/create")
        replies = await asyncio.gather(*(answered(client, "/step", id=0, action=name) for name in "ab"))
        assert replies == [BROKEN, BROKEN]
        world.gate.set()


async def test_a_request_that_is_cancelled_breaks_its_session_which_is_closed_when_the_call_ends() -> None:
    world = SlowWorld()
    async with client_of(world) as client:
        await answered(client, "/create")
        held = asyncio.ensure_future(answered(client, "/step", id=0, action="held"))
        await entered(world)
        held.cancel()
        assert await held == {"detail": "The server is being ended."}
        assert "is broken" in (await answered(client, "/step", id=0, action="again"))["error"]  # type: ignore[index]
        world.gate.set()
        await released(world)


async def test_a_server_ends_although_a_call_never_does() -> None:
    world = SlowWorld()
    app = build_app(world, call_seconds=0.25)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell_module, "_GRACE_SECONDS", 0.05)
        async with living(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://world") as client:
            for _ in range(2):
                await answered(client, "/create")
            assert await answered(client, "/step", id=0, action="held") == BROKEN
    assert (app.stuck, world.closed, world.over) == (1, 1, 1), "the other session and the world were closed"
    world.gate.set()


async def test_a_session_that_opens_past_its_time_is_closed_when_it_has_opened() -> None:
    world = SlowOpening()
    async with client_of(world, call_seconds=0.25, max_sessions=1) as client:
        assert await answered(client, "/create") == {"error": "The call takes longer than 0.25 seconds."}
        world.opening.set()
        await released(world)
        assert (await answered(client, "/create"))["id"] == 1  # type: ignore[index]


class SlowSearching(SlowWorld):
    """Has an oracle, which waits at the gate."""

    def open(self) -> SlowSession:
        return SearchingSession(self)


class SearchingSession(SlowSession):
    """The same."""

    def oracle(self) -> tuple[str, ...]:
        return (self.step("found").observation,)


class SlowOpening(SlowWorld):
    """Opens a session when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.opening = threading.Event()

    def open(self):  # type: ignore[no-untyped-def]
        self.opening.wait(10)
        return super().open()


@pytest.mark.slow
async def test_a_call_for_which_no_thread_becomes_free_is_not_made() -> None:
    calls = Calls(threads=True, seconds=0.25, most=1)
    gate, made = threading.Event(), []
    with pytest.raises(TooSlow):
        await calls.run(lambda: gate.wait(10))
    with pytest.raises(Busy, match=r"no thread was free for 0\.25 seconds"):
        await calls.run(lambda: made.append(1))
    gate.set()
    assert await calls.run(lambda: 7) == 7
    assert (made, await calls.close(1)) == ([], 0)


async def test_a_hundred_creates_without_a_close_are_bounded_and_all_closed_at_the_end() -> None:
    world = SlowWorld()
    async with client_of(world, max_sessions=60) as client:
        replies = [await answered(client, "/create") for _ in range(100)]
    assert sum("error" in reply for reply in replies) == 40  # type: ignore[operator]
    assert (world.closed, world.over) == (60, 1)


async def test_idle_sessions_are_closed_although_no_call_comes() -> None:
    world = SlowWorld()
    async with client_of(world, idle_seconds=0.04) as client:
        await answered(client, "/create")
        await released(world)


async def test_the_longest_body_is_an_option() -> None:
    async with client_of(body_bytes=40) as client:
        assert (await client.post("/create", content=b"{}".ljust(40))).status_code == 200
        reply = await client.post("/create", content=b"{}".ljust(41))
    assert (reply.status_code, reply.json()) == (413, {"detail": "The body is longer than 40 bytes."})


async def answer_to(*messages: dict[str, object], then_wait: bool = False) -> list[dict[str, object]]:
    """What the app sends to a POST whose body comes as these messages."""
    coming, sent = list(messages), []

    async def receive() -> dict[str, object]:
        if not coming and then_wait:
            await asyncio.Event().wait()
        return coming.pop(0)

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async with client_of() as client:
        application = client._transport.app  # type: ignore[attr-defined]
        await application({"type": "http", "method": "POST", "path": "/create", "query_string": b"", "headers": []}, receive, send)
    return sent


def part(body: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_may_come_in_parts() -> None:
    assert (await answer_to(part(b"{", more=True), part(b"", more=True), part(b"}", more=False)))[0]["status"] == 200


async def test_a_body_that_stops_coming_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "_BODY_SECONDS", 0.02)
    assert (await answer_to(part(b"{", more=True), then_wait=True))[0]["status"] == 408


async def test_a_body_that_never_starts_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "_BODY_SECONDS", 0.02)
    assert (await answer_to(then_wait=True))[0]["status"] == 408


async def test_a_client_that_goes_before_its_body_came_is_answered_nothing() -> None:
    assert await answer_to(part(b"{", more=True), {"type": "http.disconnect"}) == []
