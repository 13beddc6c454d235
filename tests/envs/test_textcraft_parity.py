"""A folder of recipes in the game's own format, loaded and played as AgentGym's server does; the recipes are invented.

Listings, depths and replies here are what AgentGym's loader and environment gave for the same folder, read in sorted order, with one difference,
which the world's README names: a craft without a recipe is answered with the item and not with a Python object.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentgym_envs.textcraft.game import game_book
from agentgym_envs.textcraft.world import TextCraft
from tests.envs.servers import answered, client_of

WORKSHOP = Path(__file__).parent / "data/workshop"
BOOK = game_book(WORKSHOP)
NO_RECIPE = "Could not find a valid recipe for 1 minecraft:"
REPLIES = (
    r"Got \d+ .+",
    r"Could not find (?!enough|a valid).+",
    r"Could not execute .*",
    r"Inventory: You are not carrying anything\.",
    r"Inventory: (\[[a-z ]+\] \(\d+\) )+",
    r"Wrong item format: .*",
    r"Could not find enough items to craft minecraft:\w+",
    r"Could not find a valid recipe for \d+ minecraft:\w+",
    r"Crafted \d+ minecraft:\w+",
)
"""Every form in which an action is answered."""
PLAYED = {
    "crate": (
        ("inventory", "Inventory: You are not carrying anything."),
        ("get 1 fir logs", "Got 1 fir logs"),
        ("get 1 fir log", "Could not find fir log"),
        ("get 1 elm log", "Got 1 elm log"),
        ("craft 4 fir board using 1 fir logs", "Crafted 4 minecraft:fir_board"),
        ("craft fir board using 1 elm log", f"{NO_RECIPE}fir_board"),
        ("craft 1 elm_board using 1 elm_log", "Crafted 4 minecraft:elm_board"),
        ("get 1 boards", "Could not find boards"),
        ("get 2 fir board", "Could not find fir board"),
        ("get 1 unobtainium", "Could not find unobtainium"),
        ("get 0 stone", "Could not find stone"),
        ("get 0 hay", "Got 0 hay"),
        ("get two hay", "Could not execute get two hay"),
        ("Get 1 hay", "Could not execute Get 1 hay"),
        ("", "Could not execute "),
        ("craft crate using 2 boards, 2 rope", "Could not find enough items to craft minecraft:crate"),
        ("craft crate using 2 fir board, 2 rope", "Could not find enough items to craft minecraft:crate"),
        ("get 7 flax", "Got 7 flax"),
        ("craft 9 rope using 3 flax", "Crafted 2 minecraft:rope"),
        ("craft crate using 2 fir board, rope", "Wrong item format: rope"),
        ("craft crate using 1 fir board, 1 elm board, 2 rope", f"{NO_RECIPE}crate"),
        ("craft crate using 2 rope, 2 fir board, 1 flax", f"{NO_RECIPE}crate"),
        ("inventory", "Inventory: [fir board] (4) [elm board] (4) [hay] (0) [flax] (4) [rope] (2) "),
        ("craft foo using 1 flax", f"{NO_RECIPE}foo"),
        ("craft 1 crate", "Could not execute craft 1 crate"),
        ("craft 1 crate using 2 rope, 2 elm board", "Crafted 1 minecraft:crate"),
    ),
    "stick": (("get 2 soft board", "Got 2 soft board"), ("craft 4 stick using 2 soft board", "Crafted 4 minecraft:stick")),
    "lamp": (
        ("get 4 reed", "Got 4 reed"),
        ("craft 4 stick using 2 reed", "Crafted 1 minecraft:stick"),
        ("get 1 copper", "Could not find copper"),
        ("get 1 tin", "Got 1 tin"),
        ("get 2 glow", "Got 2 glow"),
        ("craft lamp using 1 stick, 2 glow, 1 tin", "Crafted 1 minecraft:lamp"),
    ),
    "glow block": (("get 9 glow", "Got 9 glow"), ("craft glow block using 9 glow", "Crafted 1 minecraft:glow_block")),
    "bale": (("get 1 bale", "Could not find bale"), ("get 4 hay", "Got 4 hay"), ("craft bale using 4 hay", "Crafted 1 minecraft:bale")),
    "net": (
        ("get 12 flax", "Got 12 flax"),
        *((("craft rope using 3 flax", "Crafted 2 minecraft:rope"),) * 4),
        ("craft net using 6 rope", f"{NO_RECIPE}net"),
        ("craft net using 3 rope, 3 rope", "Crafted 1 minecraft:net"),
    ),
    "dry board": (
        ("get 1 soft board", "Got 1 soft board"),
        ("get 1 rag", "Got 1 rag"),
        ("craft dry board using 1 rag, 1 soft board", "Crafted 1 minecraft:dry_board"),
    ),
}
"""By goal, actions and what they were answered; the last one reaches the goal."""


def test_the_recipes_are_those_that_agentgyms_loader_keeps() -> None:
    assert [str(recipe) for recipe in BOOK.recipes] == [
        "craft 1 bale using 4 hay",
        "craft 1 crate using 2 boards, 2 rope",
        "craft 1 dry board using 1 soft board, 1 rag",
        "craft 4 elm board using 1 elm log",
        "craft 4 fir board using 1 fir logs",
        "craft 1 glow block using 9 glow",
        "craft 1 kite using 3 paper, 1 stick, 1 rope",
        "craft 1 lamp using 2 glow, 1 tin, 1 stick",
        "craft 1 net using 3 rope, 3 rope",
        "craft 2 rope using 3 flax",
        "craft 4 stick using 2 boards",
        "craft 1 stick using 2 reed",
    ], "left out: hay from a bale and a soft board from a dry one (cycles), glow from its block, and what is smelted"


def test_goals_and_depths_are_those_of_agentgyms_loader() -> None:
    assert [(goal, BOOK.depths[goal]) for goal in BOOK.goals] == [
        *((goal, 1) for goal in ("bale", "dry board", "elm board", "fir board", "glow block", "rope", "stick")),
        *((goal, 2) for goal in ("crate", "kite", "lamp", "net")),
    ]


@pytest.mark.parametrize("goal", PLAYED)
def test_an_episode_is_answered_as_agentgyms_environment_does(goal: str) -> None:
    session = TextCraft(book=BOOK).open()
    session.reset(BOOK.goals.index(goal))
    steps = [session.step(action) for action, _ in PLAYED[goal]]
    assert [step.observation for step in steps] == [reply for _, reply in PLAYED[goal]]
    assert [(step.reward, step.done) for step in steps] == [(0, False)] * (len(steps) - 1) + [(1, True)]


def test_every_form_of_reply_is_among_them_and_no_other() -> None:
    replies = [reply for played in PLAYED.values() for _, reply in played]
    forms = [[form for form in REPLIES if re.fullmatch(form, reply)] for reply in replies]
    assert all(len(form) == 1 for form in forms)
    assert {form for (form,) in forms} == set(REPLIES)


async def test_the_folder_is_served_over_agentgyms_wire() -> None:
    async with client_of(TextCraft(book=BOOK)) as client:
        first = await answered(client, "/create")
        assert first == {"id": 0, "observation": "Crafting commands:\ncraft 1 bale using 4 hay\n\nGoal: craft bale.", "done": False, "reward": 0}
        await answered(client, "/step", id=0, action="get 4 hay")
        made = await answered(client, "/step", id=0, action="craft bale using 4 hay")
        assert made == {"observation": "Crafted 1 minecraft:bale", "reward": 1, "done": True}


def test_the_oracle_solves_every_goal_of_the_folder_with_listed_recipes() -> None:
    for index, goal in enumerate(BOOK.goals):
        session = TextCraft(book=BOOK).open()
        listed = session.reset(index).observation.split("\n")
        actions = session.oracle()
        assert [session.step(action).done for action in actions] == [False] * (len(actions) - 1) + [True], goal
        assert f"Goal: craft {goal}." == listed[-1]
