"""What pins a task is asked for twice; a server that does not say the same twice pins nothing, and no session is left open."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentgym_cli.env.client import HttpEnvClient
from agentgym_cli.env.contract import EnvFailure, InfraCause, content_digest
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.survey import Content, survey
from tests.env.toy_world import URL, ToyWorld, prompt
from tests.episode.fakes import FakeEnv, Fault

TEXTCRAFT = load_dialect("textcraft")
SPEC = replace(TEXTCRAFT.spec, probe_sessions=3, goal="^task (.+)$")


def pinned(text: str, goal: str = "") -> Content:
    return Content(digest=content_digest(text), goal=goal)


def at_calls(call: str, *places: int) -> Callable[[str, int], Fault]:
    """A server that fails at the given calls of one name, counted from 0."""
    made: Counter[str] = Counter()

    def fault(name: str, session: int) -> Fault:
        made[name] += 1
        return EnvFailure(InfraCause.RESET, f"{name} lost") if name == call and made[name] - 1 in places else None

    return fault


async def test_every_task_is_digested_with_what_it_asks_for():
    env, heard = FakeEnv(), []
    found = await survey(env, SPEC, [4, 0, 7, 2], attempts=1, advance=heard.append)
    assert found == {task: pinned(f"task {task}", str(task)) for task in (4, 0, 7, 2)}
    assert heard == list(range(1, 9))
    assert env.left_open == set()
    assert env.most_open <= 3


async def test_a_server_behind_http_is_read_as_an_episode_would_read_it():
    world = ToyWorld()
    client = HttpEnvClient(world.http(), TEXTCRAFT, [URL])
    found = await survey(client, TEXTCRAFT.spec, range(20), attempts=1)
    await client.aclose()
    assert found == {task: pinned(prompt(task), f"item{task}") for task in range(20)}
    assert world.sessions == {}


async def test_a_task_that_read_otherwise_under_load_is_settled_by_asking_for_it_alone():
    asked: Counter[int] = Counter()

    def first(task: int) -> str:
        asked[task] += 1
        return f"mixed up with task {task + 1}" if task == 2 and asked[2] == 1 else f"task {task}"

    assert await survey(FakeEnv(first=first), SPEC, range(4), attempts=1) == {task: pinned(f"task {task}", str(task)) for task in range(4)}
    assert asked == {0: 2, 1: 2, 2: 4, 3: 2}


async def test_a_task_that_never_reads_the_same_is_not_pinned():
    asked: Counter[int] = Counter()

    def first(task: int) -> str:
        asked[task] += 1
        return f"task {task}, asked {asked[task]} times" if task == 2 else f"task {task}"

    env = FakeEnv(first=first)
    with pytest.raises(EnvFailure, match=r"^task 2: expected the same first observation whenever it is asked for, got digests") as caught:
        await survey(env, SPEC, range(4), attempts=1)
    assert caught.value.cause is InfraCause.PROTOCOL
    assert env.left_open == set()


async def test_a_failed_call_is_tried_again_in_a_new_session():
    env = FakeEnv(fault=at_calls("reset", 1, 5))
    assert await survey(env, SPEC, range(6), attempts=2) == {task: pinned(f"task {task}", str(task)) for task in range(6)}
    assert env.left_open == set()
    assert len(env.opened) == 3 + 3 + 2


@pytest.mark.parametrize("call", ["open", "reset"])
async def test_a_server_that_goes_on_failing_is_an_error_and_every_session_is_closed(call):
    env = FakeEnv(fault=at_calls(call, *range(1, 100)))
    with pytest.raises(EnvFailure, match=f"{call} lost"):
        await survey(env, SPEC, range(6), attempts=3)
    assert env.left_open == set()


async def test_a_cancelled_survey_closes_its_sessions():
    started = asyncio.Event()

    def fault(name: str, session: int) -> Fault:
        if name == "reset":
            started.set()
            return "hang"
        return None

    env = FakeEnv(fault=fault)
    asking = asyncio.create_task(survey(env, SPEC, range(6), attempts=3))
    await started.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert env.opened and env.left_open == set() and env.released == env.closed


async def test_promise_11_what_a_task_asks_for_is_kept_on_one_bounded_line():
    env = FakeEnv(first=lambda task: "task \x1b[31mred\x07 " + "x" * 1000)
    found = await survey(env, SPEC, [0], attempts=1)
    assert found[0].goal == "[31mred  " + "x" * 490
