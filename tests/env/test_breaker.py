"""When a server is given up, who tries it again, and how long a run waits for it; on a virtual clock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from itertools import pairwise

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.env.breaker import Breaker, BreakerRule, State
from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import EnvFailure, InfraCause, ServersLost
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.replicas import ServerChange
from agentgym_cli.errors import ExitCode
from tests.episode.virtual_time import run_virtual

RULE = BreakerRule(failures=3, pause=1.0, longest=4.0)


def failing(times: int, breaker: Breaker, now: float = 0.0) -> list[bool]:
    return [breaker.failed(now, 0, began=now) for _ in range(times)]


def test_a_breaker_opens_at_the_given_number_of_failures_in_a_row() -> None:
    breaker = Breaker(RULE)
    assert failing(2, breaker) == [False, False]
    breaker.answered(0.0, 0)
    assert failing(3, breaker) == [False, False, True]
    assert breaker.state is State.OPEN


def test_calls_that_hang_while_others_are_answered_do_not_count_and_calls_sent_since_do() -> None:
    breaker = Breaker(RULE)
    breaker.answered(10.0, 0)
    assert [breaker.failed(15.0, 0, began=9.0) for _ in range(9)] == [False] * 9
    assert [breaker.failed(15.0, 0, began=10.0) for _ in range(3)] == [False, False, True]


def test_one_session_tries_after_the_pause_and_no_other() -> None:
    breaker = Breaker(RULE)
    failing(3, breaker, now=10.0)
    assert [breaker.admits(now) for now in (10.0, 10.9, 11.0)] == [False, False, True]
    assert (breaker.admit(11.0), breaker.state) == (1, State.HALF_OPEN)
    assert not breaker.admits(100.0)
    assert breaker.admit(100.0) == 0


def test_a_trial_of_three_answers_closes_it() -> None:
    breaker = Breaker(RULE)
    failing(3, breaker)
    trial = breaker.admit(1.0)
    assert [breaker.answered(1.0, trial) for _ in range(3)] == [False, False, True]
    assert breaker.state is State.CLOSED
    assert failing(2, breaker, 1.0) == [False, False]


def test_the_pause_doubles_with_every_trial_that_fails_up_to_the_longest_and_begins_anew_when_it_closes() -> None:
    breaker, now, pauses = Breaker(RULE), 0.0, []
    failing(3, breaker)
    for _ in range(5):
        pauses.append(breaker.opens_again - now)
        now = breaker.opens_again
        assert breaker.failed(now, breaker.admit(now), began=now) is False
    assert pauses == [1.0, 2.0, 4.0, 4.0, 4.0]
    now = breaker.opens_again
    trial = breaker.admit(now)
    for _ in range(3):
        breaker.answered(now, trial)
    failing(3, breaker, now)
    assert breaker.opens_again - now == 1.0


def test_what_older_sessions_meet_says_nothing_while_it_is_open_or_tried() -> None:
    breaker = Breaker(RULE)
    failing(3, breaker)
    for _ in range(9):
        breaker.answered(0.0, 0)
        breaker.failed(0.0, 0, began=0.0)
    assert (breaker.state, breaker.opens_again) == (State.OPEN, 1.0)
    first = breaker.admit(1.0)
    breaker.failed(1.0, first, began=1.0)
    second = breaker.admit(3.0)
    breaker.failed(3.0, first, began=3.0)
    assert breaker.state is State.HALF_OPEN
    assert second == 2


def test_a_trial_that_ends_without_a_verdict_makes_room_and_its_answers_count() -> None:
    breaker = Breaker(RULE)
    failing(3, breaker)
    for now in (1.0, 2.0):
        trial = breaker.admit(now)
        breaker.answered(now, trial)
        breaker.ended(now, trial)
        assert breaker.admits(now)
    assert breaker.answered(3.0, breaker.admit(3.0)) is True


Answer = Callable[[httpx.Request], httpx.Response | Exception]


def client_of(answer: Answer, urls: list[str], changes: list[ServerChange], *, recovery: float = 60.0, call_seconds: float = 5.0) -> HttpEnvClient:
    def handler(request: httpx.Request) -> httpx.Response:
        said = answer(request)
        if isinstance(said, Exception):
            raise said
        return said

    http = build_http(transport=httpx.MockTransport(handler))
    return HttpEnvClient(
        http, load_dialect("textcraft"), urls, rule=RULE, recovery_seconds=recovery, on_change=changes.append, call_seconds=call_seconds
    )


def healthy(number: list[int]) -> httpx.Response:
    number[0] += 1
    return httpx.Response(200, json={"id": number[0], "observation": "o", "reward": 0, "done": False})


async def one_session(client: HttpEnvClient) -> str:
    """Wait, open, reset, step, close: the server that it was on, or the cause it met."""
    await client.ready()
    try:
        session = await client.open()
    except EnvFailure as failure:
        return failure.cause.value
    try:
        await session.reset(0)
        await session.step("x")
    except EnvFailure as failure:
        return failure.cause.value
    finally:
        await session.close()
    return session.replica


def test_a_dead_server_is_asked_no_more_and_the_other_takes_its_sessions() -> None:
    number, asked, changes = [0], [], list[ServerChange]()

    def answer(request: httpx.Request) -> httpx.Response | Exception:
        asked.append(request.url.host)
        return httpx.ConnectError("refused") if request.url.host == "a" else healthy(number)

    async def main() -> list[str]:
        client = client_of(answer, ["http://a", "http://b"], changes)
        return [await one_session(client) for _ in range(40)]

    ended = run_virtual(main())
    assert ended == ["connect", "http://b"] * 3 + ["http://b"] * 34
    assert asked.count("a") == 3
    assert [(change.url, change.event, change.cause) for change in changes] == [("http://a", "opened", InfraCause.CONNECT)]


def test_a_server_that_is_known_to_be_gone_is_tried_after_its_pause_and_not_before() -> None:
    number, asked, changes = [0], [], list[ServerChange]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return healthy(number)

    async def main() -> list[str]:
        client = client_of(answer, ["http://a/", "http://b"], changes)
        client.give_up("http://a", InfraCause.CONNECT, "refused", pause=2.0)
        first = [await one_session(client) for _ in range(4)]
        await asyncio.sleep(2.0)
        return first + [await one_session(client) for _ in range(4)]

    ended = run_virtual(main())
    assert ended[:4] == ["http://b"] * 4
    assert ended.count("http://a") == 2
    assert [(c.url, c.event, c.cause, c.detail) for c in changes] == [
        ("http://a", "opened", InfraCause.CONNECT, "refused"),
        ("http://a", "closed", None, ""),
    ]


def test_a_server_that_is_given_up_until_further_notice_is_tried_when_the_notice_comes() -> None:
    number, changes = [0], list[ServerChange]()

    async def main() -> tuple[str, float]:
        clock = asyncio.get_running_loop().time
        client = client_of(lambda request: healthy(number), ["http://a"], changes)
        began = clock()
        client.give_up("http://a", InfraCause.CONNECT, "its process ended", pause=math.inf)
        asyncio.get_running_loop().call_later(12.0, client.try_again, "http://a")
        return await one_session(client), clock() - began

    assert run_virtual(main()) == ("http://a", 12.0)
    assert [change.event for change in changes] == ["opened", "closed"]


def test_a_run_ends_at_once_when_all_servers_have_ended_for_good_and_not_while_one_may_come_back() -> None:
    number = [0]

    async def main() -> float:
        clock = asyncio.get_running_loop().time
        client = client_of(lambda request: healthy(number), ["http://a", "http://b"], [])
        began = clock()
        client.server_ended("http://a", "ended by signal 9 (SIGKILL)", for_good=True)
        assert [await one_session(client) for _ in range(3)] == ["http://b"] * 3
        client.server_ended("http://b", "ended with status 3", for_good=False)
        asyncio.get_running_loop().call_later(7.0, lambda: client.server_ended("http://b", "ended with status 4", for_good=True))
        with pytest.raises(ServersLost) as caught:
            await one_session(client)
        assert caught.value.message == (
            "servers of the environment: expected one that runs, got none: http://a (ended by signal 9 (SIGKILL)); http://b (ended with status 4)"
        )
        return clock() - began

    assert run_virtual(main()) == 7.0


def test_a_server_that_is_back_is_tried_by_one_session_and_then_takes_its_share() -> None:
    number, changes, loop_time = [0], list[ServerChange](), list[float]()

    def answer(request: httpx.Request) -> httpx.Response | Exception:
        now = asyncio.get_running_loop().time() - loop_time[0]
        if request.url.host == "a" and now < 2.5:
            return httpx.Response(503)
        return healthy(number)

    async def main() -> list[str]:
        loop_time.append(asyncio.get_running_loop().time())
        client = client_of(answer, ["http://a", "http://b"], changes)
        ended = []
        for _ in range(40):
            ended.append(await one_session(client))
            await asyncio.sleep(0.25)
        return ended

    ended = run_virtual(main())
    # Refused at 0, 0.5 and 1; tried at 2 and refused; tried at 4, when it is back.
    assert [place for place, where in enumerate(ended) if where == "server_5xx"] == [0, 2, 4, 8]
    assert ended.index("http://a") == 16
    assert ended[17:].count("http://a") >= 11
    assert [(change.url, change.event) for change in changes] == [("http://a", "opened"), ("http://a", "closed")]


def test_sessions_queue_while_no_server_takes_them_and_go_on_when_one_is_back() -> None:
    number, changes, started, trials = [0], list[ServerChange](), list[float](), list[float]()

    def answer(request: httpx.Request) -> httpx.Response | Exception:
        now = asyncio.get_running_loop().time() - started[0]
        if now < 6.5:
            trials.append(now)
            return httpx.ReadError("lost")
        return healthy(number)

    async def main() -> list[str]:
        started.append(asyncio.get_running_loop().time())
        client = client_of(answer, ["http://a"], changes)
        first = [await one_session(client) for _ in range(3)]
        return first + await asyncio.gather(*(one_session(client) for _ in range(50)))

    ended = run_virtual(main())
    assert trials == [0.0, 0.0, 0.0, 1.0, 3.0]
    assert ended.count("reset") == 5
    assert ended.count("http://a") == 48
    assert [change.event for change in changes] == ["opened", "closed"]


def test_a_run_ends_with_the_servers_named_when_none_comes_back_in_time() -> None:
    async def main() -> float:
        began = asyncio.get_running_loop().time()
        client = client_of(lambda request: httpx.ConnectError(f"{request.url.host} is dead"), ["http://b", "http://a"], [], recovery=20.0)
        with pytest.raises(ServersLost) as caught:
            for _ in range(100):
                await one_session(client)
        assert caught.value.exit_code is ExitCode.ENV
        assert caught.value.message.startswith(
            "servers of the environment: expected one to answer within 20 s, got none from http://a (POST http://a/"
        )
        assert "http://b (POST http://b/" in caught.value.message
        return asyncio.get_running_loop().time() - began

    assert run_virtual(main()) == 20.0


@pytest.mark.parametrize(("status", "body"), [(404, {}), (200, {"error": "CUDA out of memory"}), (200, {"id": True})])
def test_a_server_that_answers_is_never_given_up_whatever_it_says(status: int, body: dict[str, object]) -> None:
    changes: list[ServerChange] = []

    async def main() -> list[str]:
        client = client_of(lambda request: httpx.Response(status, json=body), ["http://a"], changes)
        return [await one_session(client) for _ in range(20)]

    assert len(set(run_virtual(main()))) == 1
    assert changes == []


def test_calls_that_their_caller_gives_up_at_the_deadline_count_and_calls_given_up_early_do_not() -> None:
    changes: list[ServerChange] = []
    number = [0]

    async def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/step":
            await asyncio.sleep(1_000)
        return healthy(number)

    async def main(patience: float) -> int:
        changes.clear()
        http = build_http(transport=httpx.MockTransport(handler))
        client = HttpEnvClient(http, load_dialect("textcraft"), ["http://a"], rule=RULE, on_change=changes.append, call_seconds=5.0)
        sessions = [await client.open() for _ in range(3)]
        for session in sessions:
            await session.reset(0)

        async def give_up(session: object) -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(patience):
                    await session.step("x")  # type: ignore[attr-defined]

        await asyncio.gather(*map(give_up, sessions))
        return len(changes)

    assert run_virtual(main(5.0)) == 1
    assert changes[0].cause is InfraCause.TIMEOUT
    assert run_virtual(main(4.0)) == 0


OUTAGES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(1, 30)), max_size=4)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(outages=OUTAGES, sessions=st.integers(1, 60), together=st.integers(1, 12))
def test_whatever_servers_do_every_session_ends_and_a_server_that_was_given_up_is_tried_once_a_pause(
    outages: list[tuple[str, int, int]], sessions: int, together: int
) -> None:
    """``outages``: which server does not answer, from which second on, for how long."""
    number, creates, changes = [0], list[tuple[float, str]](), list[tuple[float, ServerChange]]()

    async def main() -> list[str]:
        clock = asyncio.get_running_loop().time
        began = clock()

        async def answer(request: httpx.Request) -> httpx.Response:
            now, host = clock() - began, request.url.host
            if request.url.path == "/create":
                creates.append((now, f"http://{host}"))
            await asyncio.sleep(0.3)
            if any(server == host and since <= now < since + long for server, since, long in outages):
                raise httpx.ConnectError("refused")
            return healthy(number)

        client = HttpEnvClient(
            build_http(transport=httpx.MockTransport(answer)),
            load_dialect("textcraft"),
            ["http://a", "http://b"],
            rule=RULE,
            on_change=lambda change: changes.append((clock() - began, change)),
        )
        queue = iter(range(sessions))
        ended: list[str] = []

        async def worker() -> None:
            for _ in queue:
                ended.append(await one_session(client))
                await asyncio.sleep(0.1)

        await asyncio.gather(*(worker() for _ in range(together)))
        return ended

    ended = run_virtual(main())
    assert len(ended) == sessions
    assert set(ended) <= {"http://a", "http://b", "connect"}
    for url in ("http://a", "http://b"):
        events = [(at, change.event) for at, change in changes if change.url == url]
        assert [event for _, event in events] == ["opened", "closed"] * (len(events) // 2) + ["opened"] * (len(events) % 2)
        edges = [at for at, _ in events] + [math.inf]
        for opened, closed in zip(edges[0::2], edges[1::2], strict=False):
            tried = [opened, *(at for at, host in creates if host == url and opened < at < closed)]
            assert all(later - before >= RULE.pause for before, later in pairwise(tried))
