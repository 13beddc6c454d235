"""SciWorld on simulators that do what they are told: rules, the pool's bounds, and what becomes of a session whose simulator fails."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym_envs.protocol import WorldError
from agentgym_envs.sciworld.pool import Full, Pool
from agentgym_envs.sciworld.simulator import Simulator, SimulatorLost
from agentgym_envs.sciworld.tasks import Task, list_tasks
from agentgym_envs.sciworld.world import MOST_ACTION_CHARACTERS, SciWorld, SciWorldSession
from tests.envs.simulators import children_of, fake_runtime, fake_world, gone, watch

SAID = "You did 'look around' in boil 0.\nIt was \\new."
LOST = "The task is lost; reset the session to start another."


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SciWorld]:
    made = fake_world(tmp_path)
    yield made
    made.close()
    assert len(made.pool) == 0


@pytest.fixture
def session(world: SciWorld) -> Iterator[SciWorldSession]:
    made = world.open()
    made.reset(0)
    yield made
    made.close()


def pid_of(session: SciWorldSession) -> int:
    simulator = session._simulator
    assert simulator is not None
    return simulator.pid


def test_a_reset_says_the_first_observation_and_what_the_task_is(world: SciWorld) -> None:
    session = world.open()
    start = session.reset(1)
    session.close()
    assert start.observation == SAID.replace("boil 0", "boil 1")
    assert start.extra == {"task_name": "boil", "var_num": 1, "task_description": "boil 1", "score": 0}


def test_the_reward_of_a_step_is_the_change_of_the_score_in_hundredths(session: SciWorldSession) -> None:
    steps = [session.step(action) for action in ("score 0.07", "look", "score 0.335", "score 0.1")]
    assert [(step.reward, step.extra["score"], step.done) for step in steps] == [(7, 7, False), (0, 7, False), (27, 34, False), (-24, 10, False)]


@pytest.mark.parametrize(
    ("action", "score", "done"), [("score 1", 100, True), ("score -1", -100, True), ("move 100", 0, False), ("move 101", 0, True)]
)
def test_a_task_is_over_when_completed_impossible_or_out_of_moves(session: SciWorldSession, action: str, score: int, done: bool) -> None:
    step = session.step(action)
    assert (step.extra["score"], step.done) == (score, done)


def test_a_task_that_is_over_gives_its_simulator_back_and_takes_no_step(world: SciWorld, session: SciWorldSession) -> None:
    first = pid_of(session)
    session.step("score 1")
    for call in (lambda: session.step("look"), lambda: session.look("goals")):
        with pytest.raises(WorldError, match="has finished"):
            call()
    other = world.open()
    other.reset(2)
    assert pid_of(other) == first
    other.close()


def test_nothing_but_reset_answers_before_a_task(world: SciWorld) -> None:
    session = world.open()
    for call in (lambda: session.step("look"), lambda: session.look("goals"), session.oracle):
        with pytest.raises(WorldError, match="Reset it first"):
            call()


@pytest.mark.parametrize("index", [-1, 4, 10**30])
def test_mended_a_sciworld_task_number_beyond_the_list_is_refused_and_changes_nothing(session: SciWorldSession, index: int) -> None:
    session.step("score 0.5")
    with pytest.raises(WorldError, match=r"data_idx .* is out of range: expected 0 to 3"):
        session.reset(index)
    assert session.step("look").extra["score"] == 50


def test_an_action_that_is_too_long_is_no_action_to_the_simulator(session: SciWorldSession) -> None:
    longest = "x" * MOST_ACTION_CHARACTERS
    assert f"'{longest}'" in session.step(longest).observation
    assert "You did '' in" in session.step(longest + "x").observation


def test_every_character_of_an_action_arrives_as_it_was_said(session: SciWorldSession) -> None:
    for action in ("a\\nb", "é☃ \U0001f600", "e", "\x00\x1b[2J", "\"'", "sx"):
        assert f"You did '{action}' in" in session.step(action).observation
    # The fake does not unescape, so that the line that arrived is seen.
    assert r"You did 'a\nb' in".replace("\\n", "\n") in session.step("a\nb").observation


def test_an_oracle_in_the_middle_of_a_task_leaves_it_as_it_was(session: SciWorldSession) -> None:
    session.step("score 0.25")
    session.step("move 3")
    assert session.oracle() == ("score 1", "wait")
    step = session.step("move 97")
    assert (step.reward, step.extra["score"], step.done) == (0, 25, False)
    assert session.step("move 1").done


def test_a_gold_path_is_worked_out_once(world: SciWorld, session: SciWorldSession) -> None:
    assert session.oracle() == session.oracle()
    session.step("score 1")
    assert session.oracle() == ("score 1", "wait")
    assert set(world.golden) == {0}


def test_there_is_no_verifier_and_nothing_else_to_look_at(session: SciWorldSession) -> None:
    with pytest.raises(WorldError, match="no verifier"):
        session.verify()
    with pytest.raises(WorldError, match="nothing called render"):
        session.look("render")


def test_mended_one_simulator_more_than_the_limit_is_refused_until_a_task_ends(world: SciWorld) -> None:
    sessions = [world.open() for _ in range(3)]
    for session in sessions[:2]:
        session.reset(0)
    with pytest.raises(Full, match=r"^The server is full: 2 simulators are in use\."):
        sessions[2].reset(0)
    sessions[0].step("score 1")
    assert sessions[2].reset(0).observation == SAID
    for session in sessions:
        session.close()


def test_mended_a_simulator_serves_one_session_after_another(world: SciWorld) -> None:
    pids = set()
    for _ in range(5):
        session = world.open()
        session.reset(0)
        pids.add(pid_of(session))
        session.close()
    assert (len(pids), len(world.pool), world.pool.started) == (1, 1, 1)


def test_an_old_simulator_makes_room_for_a_new_one(tmp_path: Path) -> None:
    world = fake_world(tmp_path, most=1, most_loads=2)
    pids = []
    for _ in range(5):
        session = world.open()
        session.reset(0)
        pids.append(pid_of(session))
        session.close()
    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]
    world.close()


@pytest.mark.parametrize(("action", "why"), [("die", "connection"), ("garbage", "expected a reply"), ("raise", "java.lang.Error: as asked")])
def test_mended_a_simulator_that_fails_costs_one_session_its_task_and_is_replaced(
    world: SciWorld, session: SciWorldSession, action: str, why: str
) -> None:
    pid = pid_of(session)
    with pytest.raises(WorldError, match=f"(?s)^The simulator failed: .*{why}.*{LOST}"):
        session.step(action)
    with pytest.raises(WorldError, match="Reset it first"):
        session.step("look")
    assert len(world.pool) == 0
    assert session.reset(0).observation == SAID
    assert pid_of(session) != pid


@pytest.mark.slow
def test_mended_a_simulator_that_hangs_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    world = fake_world(tmp_path, seconds=1.5)
    session = world.open()
    session.reset(0)
    watched = watch([pid_of(session)])
    began = time.monotonic()
    with pytest.raises(WorldError, match="no reply in time"):
        session.step("hang")
    assert 1.0 < time.monotonic() - began < 10
    assert gone(watched, 5)
    world.close()


def test_a_gold_path_has_five_times_as_long_as_another_question(tmp_path: Path) -> None:
    simulator = Simulator(fake_runtime(tmp_path), seconds=20)
    gateway = simulator._gateway
    assert gateway is not None
    given = {}

    class Watched:
        def call(self, target: str, method: str, *arguments: object, deadline: float) -> object:
            given[method, *arguments] = round(deadline - time.monotonic())
            return gateway.call(target, method, *arguments, deadline=deadline)  # type: ignore[arg-type]

        def close(self) -> None:
            gateway.close()

    simulator._gateway = Watched()  # type: ignore[assignment]
    simulator.load("boil", 0, gold=True)
    simulator.load("boil", 1)
    simulator.end()
    assert given["load", "boil", 0, "", True] == 100
    assert {seconds for asked, seconds in given.items() if asked != ("load", "boil", 0, "", True)} == {20}


def test_a_simulator_that_was_killed_between_two_calls_is_an_error_and_then_another(session: SciWorldSession) -> None:
    pid = pid_of(session)
    watched = watch([pid])
    os.kill(pid, signal.SIGKILL)
    assert gone(watched, 5)
    with pytest.raises(WorldError, match=r"The simulator failed: .*The task is lost"):
        session.step("look")
    session.reset(0)
    pid = pid_of(session)
    os.kill(pid, signal.SIGKILL)
    assert gone(watch([pid]), 5)
    assert session.reset(1).extra["var_num"] == 1


def test_an_idle_simulator_that_died_is_not_handed_out(world: SciWorld, session: SciWorldSession) -> None:
    pid = pid_of(session)
    session.close()
    os.kill(pid, signal.SIGKILL)
    assert gone(watch([pid]), 5)
    other = world.open()
    assert other.reset(0).observation == SAID
    assert (pid_of(other) != pid, len(world.pool)) == (True, 1)
    other.close()


def test_a_task_that_cannot_be_loaded_takes_no_room(world: SciWorld) -> None:
    session = world.open()
    for _ in range(3):
        with pytest.raises(WorldError, match=LOST):
            session.reset(3)
    assert len(world.pool) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "why"), [("broken", r"got \[\]"), ("stranger", "did not start"), ("silent", "nothing printed in time")])
def test_a_program_that_is_no_simulator_is_refused_and_ended(tmp_path: Path, mode: str, why: str) -> None:
    before = children_of(os.getpid())
    pool = Pool(fake_runtime(tmp_path, mode), most=1, seconds=1.5 if mode == "silent" else 20)
    for _ in range(2):
        with pytest.raises(SimulatorLost, match=why):
            pool.lease()
    assert (len(pool), children_of(os.getpid())) == (0, before)


def test_a_closed_pool_ends_what_is_given_back(tmp_path: Path) -> None:
    pool = Pool(fake_runtime(tmp_path), most=2, seconds=20)
    idle, used = pool.lease(), pool.lease()
    pool.give_back(idle)
    watched = watch([idle.pid, used.pid])
    pool.close()
    assert (idle.alive, used.alive, len(pool)) == (False, True, 1)
    pool.give_back(used)
    assert gone(watched, 5) and len(pool) == 0


def test_a_simulator_ends_when_its_standard_input_does(tmp_path: Path) -> None:
    simulator = Simulator(fake_runtime(tmp_path), seconds=20)
    watched = watch([simulator.pid])
    simulator.end()
    assert gone(watched, 5)


def test_tasks_are_every_variation_in_the_files_order_without_seven_of_them(tmp_path: Path) -> None:
    names = {"1-1": "boil", "2-3": "conduct", "5-1": "grow-plant", "5-2": "grow-fruit", "10-2": "mendel", "4-1": "find"}
    file = tmp_path / "tasks.json"
    file.write_text("[" + ",".join(f'{{"task_id": "{key}", "task_name": "{name}"}}' for key, name in names.items()) + "]", encoding="utf-8")
    assert list_tasks(file, {"boil": 2, "conduct": 1, "find": 3}.__getitem__) == (
        *(Task("boil", 0), Task("boil", 1), Task("conduct", 0)),
        *(Task("find", 0), Task("find", 1), Task("find", 2)),
    )


def test_a_task_list_of_another_form_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text('[{"id": 1}]', encoding="utf-8")
    with pytest.raises(ValueError, match=r"tasks\.json: expected objects with task_id and task_name"):
        list_tasks(file, len)
