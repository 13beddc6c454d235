"""BabyAI's episodes, worked out by hand in a room of 2 x 2 cells; the forty levels; the bot."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym_envs.babyai.levels import LEVELS
from agentgym_envs.babyai.world import MOST_ACTION_CHARACTERS, BabyAI, BabyAISession
from agentgym_envs.protocol import Step, WorldError

pytestmark = pytest.mark.worlds

REFERENCE = json.loads(Path(__file__).parent.joinpath("data/babyai_reference.json").read_text(encoding="utf-8"))
"""By task: the most moves, and (action, SHA-256 of the observation, reward, done) of AgentGym's rules with MiniGrid 2.3.1."""
TINY = 3
"""Level GoToObjS6 with seed 0, N = 16. The agent stands at the upper right and faces down, a blue key lies at the lower left:

    . v
    k .
"""
ACTIONS = '["turn left", "turn right", "move forward", "pickup blue key 1", "go to blue key 1", "check available actions"]'
FACED = (
    "In front of you in this room, you can see several objects: There is a blue key 1 right in front of you 1 steps away.  "
    "The room has walls around you. You are facing a wall 2 steps away. You are not carrying anything."
)
COMPLETED = "\n The task is completed."
RED_DOOR = 12
"""Level OpenRedDoor with seed 0."""
IMPOSSIBLE = "KeyInBox"
"""The key lies in a box, and no action opens one."""


def started(task: int) -> BabyAISession:
    session = BabyAI().open()
    session.reset(task)
    return session


def played(session: BabyAISession, *actions: str) -> Step:
    """The reply to the last action."""
    return [session.step(action) for action in actions][-1]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def score(step: Step) -> object:
    return step.extra["score"]


def test_the_first_observation_says_goal_view_and_actions() -> None:
    start = BabyAI().open().reset(TINY)
    assert start.observation == (
        "Your goal: go to the blue key\n"
        "In front of you in this room, you can see several objects: There is a blue key 1 1 steps in front of you and 1 steps to your right.  "
        f"The room has walls around you. You are facing a wall 2 steps away. You are not carrying anything.\nAvailable actions: {ACTIONS}"
    )
    assert start.extra == {"score": 0, "goal": "go to the blue key"}


def test_a_goal_pays_1_less_nine_tenths_of_the_share_of_moves() -> None:
    # Forward and right: two of 16 moves.
    step = played(started(TINY), "go to blue key 1")
    assert step.observation.startswith(FACED + COMPLETED + "\nAvailable actions: [")
    assert (step.reward, step.done, score(step)) == (pytest.approx(1 - 0.9 * 2 / 16), True, pytest.approx(0.8875))


def test_moves_one_by_one_pay_as_an_action_that_stands_for_them() -> None:
    session = started(TINY)
    assert played(session, "move forward").reward == 0
    assert played(session, "turn right").reward == pytest.approx(0.8875)


def test_picking_up_what_was_to_be_gone_to_pays_too() -> None:
    # One move more, and the agent looks at where the key lay.
    step = played(started(TINY), "pickup blue key 1")
    assert (step.reward, step.done) == (pytest.approx(1 - 0.9 * 3 / 16), True)
    assert "You are carrying a blue key.\n The task is completed.\n" in step.observation


def test_only_the_last_move_of_an_action_pays() -> None:
    # "open the red door" is reached by the toggle; the action goes on through the door, and the goal is behind it.
    session = started(RED_DOOR)
    assert session.look("goal") == "open the red door"
    step = played(session, "toggle and go through red closed door 1")
    assert (step.reward, step.done, COMPLETED in step.observation) == (0, False, False)
    session.reset(RED_DOOR)
    assert played(session, "go to red closed door 1", "toggle").done


def test_a_goal_reached_in_half_of_the_moves_is_done_and_one_move_later_is_not() -> None:
    session = started(TINY)
    played(session, *["turn left"] * 4, "turn left", "turn right")
    # Eight moves: 0.55.
    assert played(session, "go to blue key 1").done
    session.reset(TINY)
    # Nine moves: 0.49. The key is faced from above.
    step = played(session, *["turn left"] * 4, "turn left", "turn right", "turn right", "move forward", "turn left")
    assert (step.reward, step.done) == (pytest.approx(1 - 0.9 * 9 / 16), False)
    assert step.observation.startswith(FACED + COMPLETED)


def test_mended_a_goal_reached_late_is_paid_once_and_no_other_action_pays_it_again() -> None:
    session = started(TINY)
    late = played(session, *["turn left"] * 8, "go to blue key 1")
    assert (late.reward, late.done, score(late)) == (pytest.approx(1 - 0.9 * 10 / 16), False, pytest.approx(0.4375))
    for action in ("check available actions", "fly", "", "turn left", "turn right", "go to blue key 1"):
        step = session.step(action)
        assert (step.reward, step.done, score(step)) == (0, False, pytest.approx(0.4375))
    assert session.reset(TINY).extra["score"] == 0
    assert played(session, "go to blue key 1").done


def test_mended_a_goal_reached_after_the_levels_last_move_pays_nothing_rather_than_less() -> None:
    # 18 moves of 16 would pay -0.0125.
    step = played(started(TINY), *["turn left"] * 16, "go to blue key 1")
    assert (step.reward, step.done, score(step)) == (0, False, 0)


def test_mended_a_step_after_done_and_before_the_first_reset_is_refused_in_words() -> None:
    session = BabyAI().open()
    for call in (lambda: session.step("turn left"), lambda: session.look("goal"), session.oracle):
        with pytest.raises(WorldError, match=r"^The session has no task\. Reset it first\.$"):
            call()
    session.reset(TINY)
    played(session, "go to blue key 1")
    with pytest.raises(WorldError, match=r"^The task has finished\."):
        session.step("turn left")
    session.reset(TINY)
    assert not played(session, "turn left").done


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("fly", "The action is not recognized. Please check valid actions."),
        ("", "No change in state."),
        (" \n", "No change in state."),
        ("go to blue key 2", "The action is not recognized. Please check valid actions."),
        ("toggle", "The action is not recognized. Please check valid actions."),
        ("drop", "You cannot drop the object, as you are not carrying anything."),
        ("<search>mug</search>", "The action is not recognized. Please check valid actions."),
        ("\x00\x1b[31m", "The action is not recognized. Please check valid actions."),
        (
            "check",
            "You can take the following actions: turn left, turn right, move forward, pickup blue key 1, go to blue key 1, check available actions",
        ),
        (
            "please CHECK it",
            "You can take the following actions: turn left, turn right, move forward, pickup blue key 1, go to blue key 1, check available actions",
        ),
    ],
)
def test_what_is_no_move_leaves_everything_as_it_was(action: str, said: str) -> None:
    session = started(TINY)
    step = session.step(action)
    assert step.observation == f"{said}\nAvailable actions: {ACTIONS}"
    assert (step.reward, step.done) == (0, False)
    # No move was made: two moves later the goal pays as if it had been the first action.
    assert played(session, "go to blue key 1").reward == pytest.approx(0.8875)


def test_case_and_blanks_around_an_action_do_not_count() -> None:
    assert played(started(TINY), "  Go To BLUE key 1\n").done


def test_going_to_what_is_faced_already_changes_nothing() -> None:
    session = started(0)
    assert "There is a grey key 1 right in front of you 1 steps away." in played(session, "go to grey key 1").observation
    assert session.step("go to grey key 1").observation.startswith("No change in state.\n")


def test_mended_a_long_action_is_not_recognized_whatever_it_says() -> None:
    session = started(TINY)
    for action in ("check" + " " * MOST_ACTION_CHARACTERS, "x" * 1_000_000, "İ" * 1_000_000):
        assert session.step(action).observation.startswith("The action is not recognized.")
    assert session.step("turn left" + " " * (MOST_ACTION_CHARACTERS - 9)).observation.startswith("In front of you")


@pytest.mark.parametrize("index", [-1, 4_000_000, 10**30])
def test_mended_a_task_number_out_of_range_is_refused_and_changes_nothing(index: int) -> None:
    session = started(TINY)
    with pytest.raises(WorldError, match=rf"^The data_idx {index} is out of range: expected 0 to 3999999\.$"):
        session.reset(index)
    assert played(session, "go to blue key 1").done


def test_the_last_task_is_there() -> None:
    assert BabyAI().open().reset(BabyAI().task_count - 1).observation.startswith("Your goal: ")


@pytest.mark.parametrize("task", sorted(REFERENCE, key=lambda task: int(task) % 40))
def test_every_level_answers_as_agentgyms_environment_does(task: str) -> None:
    session = BabyAI().open()
    (_, first, _, _), *replies = REFERENCE[task]["replies"]
    assert digest(session.reset(int(task)).observation) == first
    for action, expected, reward, done in replies:
        step = session.step(action)
        assert digest(step.observation) == expected, (action, step.observation)
        assert (step.reward, step.done) == (pytest.approx(reward), done)


def test_the_reference_covers_every_level() -> None:
    assert {int(task) % 40 for task in REFERENCE} == set(range(40))


def test_a_task_is_a_level_and_a_seed() -> None:
    goals = {task: BabyAI().open().reset(task).observation.splitlines()[0] for task in (0, 40, 400, 13, 24)}
    assert goals[0] == goals[40] == goals[400] == "Your goal: go to the red ball"
    assert goals[13] == "Your goal: open a door in front of you" and goals[24] == "Your goal: open the door"
    assert BabyAI().open().reset(0).observation != BabyAI().open().reset(40).observation


def test_equal_tasks_are_equal_whatever_was_played_before() -> None:
    session, fresh = started(38), started(38)
    played(session, "turn left", "move forward")
    session.reset(7)
    assert session.reset(38).observation == fresh.reset(38).observation
    assert session.step("turn right") == fresh.step("turn right")


def test_looking_shows_goal_actions_and_a_picture_and_changes_nothing() -> None:
    session = started(TINY)
    assert session.look("goal") == "go to the blue key"
    assert session.look("commands") == json.loads(ACTIONS)
    picture = str(session.look("render"))
    assert picture.startswith("data:image/png;base64,")
    # Four cells of 32 pixels each way, walls included.
    assert base64.b64decode(picture.partition(",")[2])[16:24] == (128).to_bytes(4, "big") * 2
    assert picture == session.look("render")
    with pytest.raises(WorldError, match="There is nothing called treasure to look at"):
        session.look("treasure")
    with pytest.raises(WorldError, match="no verifier"):
        session.verify()


@pytest.mark.parametrize("level", range(40))
def test_the_bot_solves_every_level_but_the_one_that_cannot_be_solved(level: int) -> None:
    solved = 0
    for seed in range(3):
        session = started(level + 40 * seed)
        try:
            actions = session.oracle()
        except WorldError as err:
            assert str(err).startswith("Nobody knows how to solve this task")
            continue
        *before, last = [session.step(action) for action in actions]
        assert last.done and last.reward > 0.5 and not any(step.done for step in before)
        solved += 1
    assert (solved == 0) == (LEVELS[level].name == IMPOSSIBLE)


def test_the_oracle_starts_from_the_start_whatever_was_played() -> None:
    session = started(TINY)
    played(session, "turn left", "move forward")
    assert session.oracle() == ("go to blue key 1",)


def test_a_bot_that_plans_without_end_is_stopped() -> None:
    # UnlockToUnlock with seed 4.
    with pytest.raises(WorldError, match="gives up"):
        started(28 + 40 * 4).oracle()


def test_random_episodes_keep_their_promises() -> None:
    for task in range(0, 400, 7):
        session, chance, total = started(task), random.Random(task), 0.0
        for _ in range(25):
            listed = session.look("commands")
            assert isinstance(listed, list)
            step = session.step(chance.choice(listed))
            total += step.reward
            assert 0 <= step.reward < 1 and step.done == (step.reward > 0.5)
            assert score(step) == pytest.approx(total) and total < 1
            if step.done:
                break


def test_prompts_do_not_depend_on_pythons_hash_seed() -> None:
    script = (
        "import hashlib\nfrom agentgym_envs.babyai.world import BabyAI\n"
        "print(hashlib.sha256(''.join(BabyAI().open().reset(i).observation for i in range(0, 400, 9)).encode()).hexdigest())"
    )
    said = [
        subprocess.run([sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in "07"
    ]
    assert said[0] == said[1] and len(said[0]) == 65


def test_rejected_layouts_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    for task in range(0, 4000, 40):
        BabyAI().open().reset(task + 34)
    assert capfd.readouterr().out == ""
