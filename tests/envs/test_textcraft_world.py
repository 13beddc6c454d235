"""TextCraft's rules and words: episodes worked out by hand, and one test for every row of the world's table of mended faults."""

from __future__ import annotations

import pytest

from agentgym_envs.protocol import Step, WorldError
from agentgym_envs.textcraft.world import MOST_ACTION_CHARACTERS, TextCraft
from tests.envs.books import play, said, started, tiny_book


def test_an_episode_worked_out_by_hand() -> None:
    session = started("raft")
    assert play(
        session,
        "get 1 ash tree",
        "craft 4 ash log using 1 ash tree",
        "get 3 flax",
        "craft 2 rope using 3 flax",
        "inventory",
        "craft 1 raft using 4 ash log, 2 rope",
    ) == [
        Step("Got 1 ash tree", 0, False),
        Step("Crafted 4 ash log", 0, False),
        Step("Got 3 flax", 0, False),
        Step("Crafted 2 rope", 0, False),
        Step("Inventory: [ash log] (4) [rope] (2) ", 0, False),
        Step("Crafted 1 raft", 1, True),
    ]


def test_what_is_used_up_leaves_the_inventory_and_what_is_left_over_stays() -> None:
    session = started("raft")
    assert said(session, "get 5 flax", "craft rope using 3 flax", "inventory", "get 1 flax", "craft rope using 3 flax", "inventory")[2::3] == [
        "Inventory: [flax] (2) [rope] (2) ",
        "Inventory: [rope] (4) ",
    ]


@pytest.mark.parametrize(
    ("action", "observation"),
    [
        ("", "Could not execute "),
        ("fly to the moon", "Could not execute fly to the moon"),
        ("GET 1 flax", "Could not execute GET 1 flax"),
        (" get 1 flax", "Could not execute  get 1 flax"),
        ("get flax", "Could not execute get flax"),
        ("get -1 flax", "Could not execute get -1 flax"),
        ("craft 1 rope", "Could not execute craft 1 rope"),
        ("get 1 unobtainium", "Could not find unobtainium"),
        ("get 1 rope", "Could not find rope"),
        ("get 1 logs", "Could not find logs"),
        ("get 2 flax", "Got 2 flax"),
        ("get 002 flax", "Got 2 flax"),
        ("get 0 flax", "Got 0 flax"),
        ("get 1 ash_tree", "Got 1 ash_tree"),
        ("get 1 flax\nand more", "Got 1 flax"),
        ("inventory", "Inventory: You are not carrying anything."),
        ("inventory please", "Inventory: You are not carrying anything."),
        ("craft 2 rope using flax", "Wrong item format: flax"),
        ("craft 2 rope using 3 flax,", "Wrong item format: "),
        ("craft 2 rope using 3 flax, x tin", "Wrong item format: x tin"),
        ("craft 2 rope using 3 flax", "Could not find enough items to craft rope"),
        ("craft 1 foo using 1 flax", "Could not find enough items to craft foo"),
    ],
)
def test_every_reply_to_a_first_action(action: str, observation: str) -> None:
    assert play(started("raft"), action) == [Step(observation, 0, False)]


@pytest.mark.parametrize(
    "action",
    [
        "craft 2 rope using 2 flax",
        "craft 2 rope using 4 flax",
        "craft 2 rope using 3 flax, 1 tin",
        "craft 2 rope using 3 tin",
        "craft 2 rope using 0 flax",
    ],
)
def test_inputs_and_their_counts_must_match_a_recipe_exactly(action: str) -> None:
    session = started("raft")
    play(session, "get 9 flax", "get 9 tin")
    assert said(session, action, "inventory") == ["Could not find a valid recipe for 2 rope", "Inventory: [flax] (9) [tin] (9) "]


def test_the_format_is_checked_before_the_inventory_and_the_inventory_before_the_recipe() -> None:
    session = started("raft")
    assert said(session, "craft 1 foo using 1 tin, oil", "craft 1 foo using 1 tin", "get 1 tin", "craft 1 foo using 1 tin") == [
        "Wrong item format: oil",
        "Could not find enough items to craft foo",
        "Got 1 tin",
        "Could not find a valid recipe for 1 foo",
    ]


def test_the_stated_output_count_is_ignored() -> None:
    session = started("raft")
    assert said(session, "get 6 flax", "craft 99 rope using 3 flax", "craft rope using 3 flax", "inventory")[1:] == [
        "Crafted 2 rope",
        "Crafted 2 rope",
        "Inventory: [rope] (4) ",
    ]


def test_every_recipe_of_an_item_is_tried_and_the_order_of_inputs_is_free() -> None:
    assert said(started("lamp"), "get 2 wax", "craft 1 lamp using 2 wax")[-1] == "Crafted 1 lamp"
    assert said(started("lamp"), "get 1 oil", "get 1 tin", "craft 1 lamp using 1 oil, 1 tin")[-1] == "Crafted 1 lamp"


def test_a_tag_is_satisfied_by_a_member_of_one_kind_and_never_by_its_own_name() -> None:
    session = started("raft")
    play(session, "get 1 fir tree", "craft fir log using 1 fir tree", "get 1 ash tree", "craft ash log using 1 ash tree", "get 3 flax")
    play(session, "craft rope using 3 flax")
    assert said(
        session, "craft raft using 4 logs, 2 rope", "craft raft using 2 fir log, 2 ash log, 2 rope", "craft raft using 4 fir log, 2 rope"
    ) == [
        "Could not find enough items to craft raft",
        "Could not find a valid recipe for 1 raft",
        "Crafted 1 raft",
    ]


def test_getting_none_leaves_an_entry_of_zero_as_upstream() -> None:
    assert said(started("raft"), "get 0 tin", "inventory", "craft foo using 0 tin", "craft foo using 0 oil") == [
        "Got 0 tin",
        "Inventory: [tin] (0) ",
        "Could not find a valid recipe for 1 foo",
        "Could not find enough items to craft foo",
    ]


def test_a_reset_empties_the_inventory_and_changes_the_goal() -> None:
    session = started("rope")
    play(session, "get 3 flax")
    session.reset(3)
    assert session.look("goal") == "lamp"
    assert said(session, "inventory") == ["Inventory: You are not carrying anything."]


def test_mended_done_latches_and_its_reward_cannot_be_earned_again() -> None:
    session = started("rope")
    assert play(session, "get 6 flax", "craft 2 rope using 3 flax")[-1] == Step("Crafted 2 rope", 1, True)
    with pytest.raises(WorldError, match=r"^The task has finished"):
        session.step("craft 2 rope using 3 flax")
    session.reset(0)
    assert play(session, "get 3 flax", "craft 2 rope using 3 flax")[-1] == Step("Crafted 2 rope", 1, True)


def test_mended_replies_show_words_for_our_books_and_identifiers_for_the_games() -> None:
    actions = ("craft ash log using 1 ash tree", "get 1 ash tree", "craft 3 ash plank using 1 ash tree", "craft ash log using 1 ash tree")
    assert said(started("raft"), *actions) == [
        "Could not find enough items to craft ash log",
        "Got 1 ash tree",
        "Could not find a valid recipe for 3 ash plank",
        "Crafted 4 ash log",
    ]
    assert said(started("raft", namespace="minecraft:"), *actions) == [
        "Could not find enough items to craft minecraft:ash_log",
        "Got 1 ash tree",
        "Could not find a valid recipe for 3 minecraft:ash_plank",
        "Crafted 4 minecraft:ash_log",
    ]


def test_mended_a_tag_as_output_is_named_in_the_reply() -> None:
    session = started("raft")
    assert said(session, "craft logs using 1 ash tree", "get 1 ash tree", "craft logs using 1 ash tree") == [
        "Could not find enough items to craft logs",
        "Got 1 ash tree",
        "Could not find a valid recipe for 1 logs",
    ]


@pytest.mark.parametrize("index", [-1, 5, 10**30])
def test_mended_a_task_number_beyond_the_range_is_refused_and_changes_nothing(index: int) -> None:
    session = started("rope")
    play(session, "get 3 flax")
    with pytest.raises(WorldError, match=r"^The data_idx -?\d+ is out of range: expected 0 to 4\.$"):
        session.reset(index)
    assert play(session, "craft 2 rope using 3 flax") == [Step("Crafted 2 rope", 1, True)]


def test_with_compat_task_numbers_wrap_as_upstream() -> None:
    session = TextCraft(book=tiny_book(), wrap=True).open()
    prompt = session.reset(1)
    assert session.reset(6) == prompt
    assert session.reset(-4) == prompt


def test_mended_an_amount_beyond_what_a_session_may_hold_is_refused() -> None:
    session = started("raft")
    assert said(session, "get 1000000 flax", "get 1 flax", "get 1000001 tin", "get " + "9" * 3000 + " tin", "inventory") == [
        "Got 1000000 flax",
        "Could not find that many flax",
        "Could not find that many tin",
        "Could not find that many tin",
        "Inventory: [flax] (1000000) ",
    ]


def test_mended_a_long_action_is_not_executed_and_quoted_in_part() -> None:
    longest = "get 1 " + "x" * (MOST_ACTION_CHARACTERS - 6)
    assert said(started("raft"), longest, longest + "x", "get " + "9" * 5000 + " flax") == [
        "Could not find " + "x" * (MOST_ACTION_CHARACTERS - 6),
        "Could not execute " + longest[:200],
        "Could not execute get " + "9" * 196,
    ]


def test_mended_an_input_named_twice_needs_both_amounts() -> None:
    session = started("lamp")
    assert said(session, "get 1 tin", "craft lamp using 1 tin, 1 tin", "get 1 tin", "craft lamp using 1 tin, 1 tin", "inventory") == [
        "Got 1 tin",
        "Could not find enough items to craft lamp",
        "Got 1 tin",
        "Could not find a valid recipe for 1 lamp",
        "Inventory: [tin] (2) ",
    ]


def test_mended_a_reset_does_not_teach_the_goal_the_recipes_of_its_parts() -> None:
    world = TextCraft(book=tiny_book())
    for _ in range(3):
        world.open().reset(4)
    session = started("raft")
    assert said(session, "get 3 flax", "craft 1 raft using 3 flax") == ["Got 3 flax", "Could not find a valid recipe for 1 raft"]


def test_a_session_without_a_task_refuses_everything() -> None:
    session = TextCraft(book=tiny_book()).open()
    for call in (lambda: session.step("inventory"), lambda: session.look("goal"), lambda: session.look("commands"), session.oracle):
        with pytest.raises(WorldError, match="has no task"):
            call()


def test_sessions_of_one_world_do_not_share_an_inventory() -> None:
    world = TextCraft(book=tiny_book())
    first, second = world.open(), world.open()
    first.reset(0)
    second.reset(0)
    first.step("get 3 flax")
    assert second.step("inventory").observation == "Inventory: You are not carrying anything."
