"""SciWorld on the real simulator: upstream's recorded replies, an episode worked by hand, hostile actions, and processes that never stay behind."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import launch
from agentgym_cli.env.probe import probe
from agentgym_envs.protocol import JSON, Step, WorldError
from agentgym_envs.sciworld.gateway import Gateway, GatewayError, JavaError
from agentgym_envs.sciworld.options import build
from agentgym_envs.sciworld.world import SciWorld, SciWorldSession
from tests.envs.servers import answered, client_of
from tests.envs.simulators import children_of, gone, wait_until_stopped, watch

pytestmark = [pytest.mark.worlds, pytest.mark.timeout(600)]

SECONDS = 300
RECORD = json.loads((Path(__file__).parents[1] / "env/data/sciworld_upstream.json").read_text(encoding="utf-8"))
MENDED = {
    ("/step", '{"id":0,"action":"look around"}', 3): {"error": "The session has no task. Reset it first."},
    ("/reset", '{"id":0,"data_idx":100000}', 6): {"error": "The data_idx 100000 is out of range: expected 0 to 4638."},
    ("/reset", '{"id":0,"data_idx":-1}', 7): {"error": "The data_idx -1 is out of range: expected 0 to 4638."},
    ("/close", '{"id":77}', 24): False,
    ("/close", '{"id":0}', 26): False,
}
"""What is answered otherwise than it was recorded, by path, body and place in the record."""
GOLD = (
    "open door to kitchen",
    "go to kitchen",
    "open door to outside",
    "go to outside",
    "look around",
    "focus on egg turtle",
    "pick up egg turtle",
    "open door to kitchen",
    "go to kitchen",
    "move egg turtle egg in inventory to yellow box",
)
UNKNOWN = "No known action matches that input."
FIND_LIVING = 3000
"""The task of the transcript, find-living-thing 64; it starts in the bathroom."""
ARTS = 61
"""A task that starts among cups of paint, more than a set keeps in the order of their coming."""


def sciworld(simulators: int) -> SciWorld:
    world = build(argparse.Namespace(simulators=simulators, call_seconds=SECONDS))
    assert isinstance(world, SciWorld)
    return world


@pytest.fixture(scope="module")
def world() -> Iterator[SciWorld]:
    made = sciworld(2)
    yield made
    made.close()
    assert (len(made.pool), children_of(os.getpid())) == (0, [])


@pytest.fixture
def session(world: SciWorld) -> Iterator[SciWorldSession]:
    made = world.open()
    made.reset(FIND_LIVING)
    yield made
    made.close()


def told(steps: list[Step]) -> list[tuple[float, JSON, bool]]:
    """Reward, score and done of each step."""
    return [(step.reward, step.extra["score"], step.done) for step in steps]


async def test_mended_every_recorded_reply_of_upstream_is_given_again_but_for_five() -> None:
    other = {}
    async with client_of(sciworld(2), call_seconds=SECONDS) as client:
        for place, exchange in enumerate(RECORD):
            reply = await client.request(exchange["method"], exchange["path"], content=exchange["body"])
            assert reply.headers["content-type"] == "application/json"
            if (reply.status_code, reply.text) != (exchange["status"], exchange["reply"]):
                other[exchange["path"], exchange["body"], place] = reply.json()
    assert other == MENDED


def test_what_is_mended_was_a_server_error_or_a_message_of_python() -> None:
    places = [place for _, _, place in MENDED]
    assert [RECORD[place]["status"] for place in places] == [200, 200, 200, 500, 500]
    assert json.loads(RECORD[3]["reply"]) == {"error": "'ScienceWorldEnv' object has no attribute 'variationIdx'"}


async def test_what_upstream_answers_after_done_and_after_close() -> None:
    async with client_of(sciworld(1), call_seconds=SECONDS, oracle=True) as client:
        assert await answered(client, "/create") == {"id": 0}
        assert (await client.get("/detail?id=0")).json() == {"deleted": False, "done": False}
        assert (await client.get("/observation?id=0")).json() == {"error": "The session has no task. Reset it first."}
        await answered(client, "/reset", id=0, data_idx=FIND_LIVING)
        assert (await client.get("/oracle?id=0")).json() == {"actions": list(GOLD)}
        lost = await answered(client, "/step", id=0, action="focus on toilet")
        assert lost == {"observation": "You focus on the toilet.", "reward": -100, "score": -100, "done": True}
        finished = {"error": "The task with environment 0 has finished."}
        assert await answered(client, "/step", id=0, action="look around") == finished
        for path in ("observation", "detail", "goals", "action_hint"):
            assert (await client.get(f"/{path}?id=0")).json() == finished
        assert (await answered(client, "/reset", id=0, data_idx=0))["task_name"] == "boil"  # type: ignore[index]
        assert await answered(client, "/close", id=0) is True
        deleted = {"error": "The task with environment 0 has been deleted."}
        assert await answered(client, "/reset", id=0, data_idx=0) == deleted
        assert (await client.get("/detail?id=0")).json() == deleted
        assert (await client.get("/detail?id=1")).json() == {"error": "The id 1 is not valid."}


def test_tasks_are_upstreams_4639() -> None:
    world = sciworld(1)
    world.close()
    assert world.task_count == 4639
    names = [(world.tasks[index].name, world.tasks[index].variation) for index in (0, 29, 30, FIND_LIVING, 4638)]
    assert names == [("boil", 0), ("boil", 29), ("melt", 0), ("find-living-thing", 64), ("identify-life-stages-2", 9)]


def test_an_episode_worked_by_hand(session: SciWorldSession) -> None:
    # A twelfth each: a door, a new room, the box's room, holding something. Focusing is worth six, the box two.
    steps = [session.step(action) for action in GOLD]
    expected = [(8, 8), (17, 25), (0, 25), (0, 25), (0, 25), (50, 75), (8, 83), (0, 83), (0, 83), (17, 100)]
    assert told(steps) == [(reward, score, score == 100) for reward, score in expected]
    assert steps[5].observation == "You focus on the turtle egg."
    with pytest.raises(WorldError, match="has finished"):
        session.step("look around")


def test_a_task_is_over_after_more_than_a_hundred_moves(session: SciWorldSession) -> None:
    # Looking takes no move; waiting takes one and one for each iteration: 9 x 11 = 99, and 110 after the tenth.
    assert not any(session.step("look around").done for _ in range(101))
    steps = [session.step("wait") for _ in range(10)]
    assert told(steps) == [(0, 0, False)] * 9 + [(0, 0, True)]


def test_the_gold_path_is_the_packages_and_is_played_to_the_end(world: SciWorld, session: SciWorldSession) -> None:
    session.step(GOLD[0])
    session.step(GOLD[1])
    assert session.oracle() == GOLD
    assert told([session.step(action) for action in GOLD[2:]])[-1] == (17, 100, True)


HOSTILE = {
    "empty": "",
    "blank": " ",
    "long": "x" * 1_000_000,
    "long and known": "go to " * 200_000,
    "control": "\x00\x01\x1b[2J\x7f",
    "lines": "look\naround\r\n\u2028",
    "protocol": "x\ne\nc\nt\nshutdown\ne\n",
    "escapes": "\\n\\r\\\\",
    "latin": "é ß",
    "beyond": "\U0001f600 雪",
    "half a pair": "\ud800",
    "another world": "craft 2 flax cord using 3 flax",
    "quotes": "\"'; drop table;",
    "number": "0",
    "a pattern": "(a+)+$",
}


@pytest.mark.parametrize("action", HOSTILE.values(), ids=HOSTILE)
def test_mended_a_hostile_action_is_an_unknown_one_and_hurts_nothing(session: SciWorldSession, action: str) -> None:
    simulator = session._simulator
    assert session.step(action) == session.step("fly to moon")
    assert session.step(action).observation == UNKNOWN
    assert told([session.step(known) for known in GOLD])[-1] == (17, 100, True)
    assert simulator is not None and simulator.alive


def played(session: SciWorldSession, index: int) -> list[object]:
    """What a session says in the first moves of a task."""
    start = session.reset(index)
    actions = ("look around", "open door to hallway", "go to hallway", "look around", "inventory", "wait1", "open door to kitchen", "go to kitchen")
    steps = [session.step(action) for action in (*actions, "look around", "pick up thermometer", "wait")]
    return [start, session.look("action_hint"), session.look("goals"), *steps]


def test_mended_a_task_is_the_same_in_any_simulator_and_after_any_other_task(world: SciWorld) -> None:
    indices = (ARTS, 33, FIND_LIVING, 4500, ARTS)
    first, second = world.open(), world.open()
    forward = [played(first, index) for index in indices]
    backward = [played(second, index) for index in reversed(indices)]
    for session in (first, second):
        session.close()
    assert forward == backward[::-1]
    assert forward[0] == forward[-1]


def test_a_simulator_that_is_killed_costs_one_task(world: SciWorld, session: SciWorldSession) -> None:
    other = world.open()
    other.reset(0)
    simulator = session._simulator
    assert simulator is not None
    os.kill(simulator.pid, signal.SIGKILL)
    with pytest.raises(WorldError, match=r"The simulator failed: .*\. The task is lost; reset the session to start another\."):
        session.step("look around")
    assert other.step("inventory").observation.startswith("In your inventory, you see:")
    other.close()
    assert session.reset(FIND_LIVING).extra["var_num"] == 64


def test_a_simulator_that_stands_still_is_ended(tmp_path: Path) -> None:
    world = sciworld(1)
    session = world.open()
    session.reset(FIND_LIVING)
    simulator = session._simulator
    assert simulator is not None
    watched = watch([simulator.pid])
    simulator._seconds = 0.5
    os.kill(simulator.pid, signal.SIGSTOP)
    wait_until_stopped(simulator.pid)
    with pytest.raises(WorldError, match="no reply in time"):
        session.step("look around")
    assert gone(watched, 30)
    world.close()


def test_mended_a_stranger_is_refused_by_a_simulators_port(session: SciWorldSession) -> None:
    simulator = session._simulator
    assert simulator is not None and simulator._gateway is not None
    port = simulator._gateway._socket.getpeername()[1]
    with pytest.raises((GatewayError, JavaError)):
        Gateway(port, "guess", deadline=time.monotonic() + SECONDS)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"c\nz:java.lang.System\nexit\ni0\ne\n")
        assert not stranger.recv(100).startswith(b"!y")
    assert session.step("inventory").observation.startswith("In your inventory, you see:")


@contextmanager
def serving(*options: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A server process with two tasks in play, and a client of it."""
    command = [sys.executable, "-m", "agentgym_envs", "sciworld", "--port", "0", "--call-seconds", str(SECONDS), *options]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        with httpx.Client(base_url=announced["url"], timeout=SECONDS) as client:
            for number in range(2):
                client.post("/create")
                assert client.post("/reset", json={"id": number, "data_idx": FIND_LIVING}).json()["task_name"] == "find-living-thing"
            yield process, client
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_simulator_outlives_its_server_however_that_ends(number: signal.Signals) -> None:
    with serving() as (process, _):
        simulators = children_of(process.pid)
        assert len(simulators) == 2
        watched = watch(simulators)
        process.send_signal(number)
        assert gone(watched, 60)
        assert process.wait(60) == {signal.SIGKILL: -9, signal.SIGTERM: 0, signal.SIGINT: 130}[number]


def test_mended_a_session_beyond_the_simulators_is_refused_until_one_closes() -> None:
    with serving("--simulators", "2") as (process, client):
        assert client.post("/create").json() == {"id": 2}
        refused = client.post("/reset", json={"id": 2, "data_idx": 0}).json()
        assert refused["error"].startswith("The server is full: 2 simulators are in use.")
        assert load_dialect("sciworld").spec.session.full.holds(200, refused)  # type: ignore[union-attr]
        client.post("/close", json={"id": 0})
        assert client.post("/reset", json={"id": 2, "data_idx": 0}).json()["task_name"] == "boil"
        assert len(children_of(process.pid)) == 2


async def test_the_world_passes_every_check_of_the_probe() -> None:
    async with launch("sciworld", oracle=True) as urls:
        report = await probe(urls, load_dialect("sciworld"), size=4639, call_seconds=60.0)
    others = {check.name: check.result for server in report.servers for check in server.checks if check.result != "pass"}
    assert others.pop("observe") == "known deviation"
    assert others.items() <= {"content": "n/a", "replicas": "n/a"}.items()
