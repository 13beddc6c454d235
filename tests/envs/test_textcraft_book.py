"""Books: reading and refusing them, depths, listings and oracle plans, on a tiny book worked out by hand."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from agentgym_envs.protocol import WorldError
from agentgym_envs.textcraft.book import Book, BookError, Ingredient, ListingRule, Recipe, book_json, load_book, parse_recipe
from agentgym_envs.textcraft.listing import digest, first_observation, listed_recipes, needed_recipes
from agentgym_envs.textcraft.plan import plan
from tests.envs.books import GOALS, LINES, tiny_book


def test_a_recipe_is_read_from_the_line_that_a_listing_shows() -> None:
    recipe = parse_recipe("craft 1 raft using 4 logs, 2 rope")
    assert recipe == Recipe("raft", 1, (Ingredient("logs", 4), Ingredient("rope", 2)))
    assert str(recipe) == "craft 1 raft using 4 logs, 2 rope"


@pytest.mark.parametrize(
    "line", ["", "craft raft using 1 log", "craft 0 raft using 1 log", "craft 1 raft using log", "craft 1 raft using 1 log, rope"]
)
def test_a_line_that_is_no_recipe_is_refused(line: str) -> None:
    with pytest.raises(BookError, match="expected 'craft COUNT ITEM"):
        parse_recipe(line)


def test_depths_count_crafts_in_a_row_over_the_shallowest_recipe_and_member() -> None:
    assert tiny_book().depths == {
        "flax": 0, "ash tree": 0, "fir tree": 0, "tin": 0, "oil": 0, "wax": 0,
        "rope": 1, "ash log": 1, "fir log": 1, "lamp": 1, "raft": 2,
    }  # fmt: skip


def test_an_item_is_as_deep_as_its_easiest_recipe() -> None:
    lines = ("craft 1 a using 1 found", "craft 1 b using 1 a", "craft 1 c using 1 b", "craft 1 c using 2 a")
    assert Book(name="x", recipes=tuple(map(parse_recipe, lines)), tags={}).depths == {"found": 0, "a": 1, "b": 2, "c": 2}


def test_goals_are_sorted_by_depth_and_then_by_the_order_of_the_recipes() -> None:
    assert tiny_book().goals == GOALS


def test_an_item_that_only_makes_itself_is_refused() -> None:
    recipes = tuple(map(parse_recipe, ("craft 1 hen using 1 egg", "craft 1 egg using 1 hen")))
    with pytest.raises(BookError, match=r"expected every item to be reachable, got \['egg', 'hen'\]"):
        Book(name="x", recipes=recipes, tags={})


def test_a_tag_named_like_an_item_is_refused() -> None:
    with pytest.raises(BookError, match=r"got \['rope'\]"):
        Book(name="x", recipes=tuple(map(parse_recipe, LINES)), tags={"rope": ("flax",)})


def test_a_book_survives_writing_and_reading(tmp_path: Path) -> None:
    rule = ListingRule(fewest=1, most=3, most_lines=6, related_only=False)
    book = Book(name="tiny", recipes=tuple(map(parse_recipe, LINES)), tags={"logs": ("ash log", "fir log")}, variants=4, rule=rule)
    (tmp_path / "tiny.json").write_text(book_json(book))
    assert load_book(tmp_path / "tiny.json") == book
    assert json.loads(book_json(book))["recipes"] == list(LINES)


def test_the_tree_holds_every_recipe_of_everything_below_the_goal() -> None:
    assert [str(recipe) for recipe in needed_recipes(tiny_book(), "raft")] == list(LINES[:4])
    assert [str(recipe) for recipe in needed_recipes(tiny_book(), "lamp")] == list(LINES[4:])


def test_distractors_use_an_ingredient_of_a_needed_recipe() -> None:
    book = tiny_book()
    assert set(listed_recipes(book, GOALS.index("lamp"))) == set(map(parse_recipe, LINES[4:]))
    more = Book(name="more", recipes=(*book.recipes, parse_recipe("craft 1 key using 1 tin")), tags=book.tags)
    assert set(listed_recipes(more, more.goals.index("key"))) == {*map(parse_recipe, LINES[4:5]), parse_recipe("craft 1 key using 1 tin")}


def test_a_member_of_a_needed_tag_counts_as_a_needed_ingredient() -> None:
    book = tiny_book()
    more = Book(name="more", recipes=(*book.recipes, parse_recipe("craft 1 door using 6 fir log")), tags=book.tags)
    assert parse_recipe("craft 1 door using 6 fir log") in listed_recipes(more, more.goals.index("raft"))


def test_the_prompt_is_upstreams_text_around_the_listing() -> None:
    book = Book(name="one", recipes=(parse_recipe("craft 2 rope using 3 flax"),), tags={})
    assert first_observation(book, 0) == "Crafting commands:\ncraft 2 rope using 3 flax\n\nGoal: craft rope."


def test_the_digest_is_the_start_of_sha256_of_the_prompt_in_utf8() -> None:
    assert digest("Göal") == sha256("Göal".encode()).hexdigest()[:16]


@pytest.mark.parametrize("index", range(20))
def test_listing_rules_bound_distractors_and_lines(index: int) -> None:
    rule = ListingRule(fewest=1, most=3, most_lines=5, related_only=False)
    book = Book(name="tiny", recipes=tuple(map(parse_recipe, LINES)), tags={"logs": ("ash log", "fir log")}, variants=4, rule=rule)
    needed = needed_recipes(book, book.goals[index % len(book.goals)])
    listed = listed_recipes(book, index)
    assert set(needed) <= set(listed) and len(set(listed)) == len(listed)
    assert min(1, 5 - len(needed)) <= len(listed) - len(needed) <= 3
    assert len(listed) <= 5


def test_variants_of_a_goal_differ_in_listing_only() -> None:
    rule = ListingRule(fewest=1, most=3, related_only=False)
    book = Book(name="tiny", recipes=tuple(map(parse_recipe, LINES)), tags={"logs": ("ash log", "fir log")}, variants=20, rule=rule)
    raft = GOALS.index("raft")
    prompts = {first_observation(book, variant * 5 + raft) for variant in range(20)}
    assert len(prompts) > 10
    assert {prompt.rpartition("\n")[2] for prompt in prompts} == {"Goal: craft raft."}


def test_a_plan_gets_and_makes_each_input_just_before_it_is_used() -> None:
    book = tiny_book()
    assert plan(book, book.recipes, "raft") == (
        "get 1 ash tree",
        "craft 4 ash log using 1 ash tree",
        "get 3 flax",
        "craft 2 rope using 3 flax",
        "craft 1 raft using 4 ash log, 2 rope",
    )


def test_a_plan_repeats_a_craft_until_it_has_enough_and_uses_what_is_left_over() -> None:
    lines = ("craft 2 peg using 1 fir", "craft 1 rack using 3 peg", "craft 1 shelf using 1 rack, 1 peg")
    book = Book(name="x", recipes=tuple(map(parse_recipe, lines)), tags={})
    assert plan(book, book.recipes, "shelf") == (
        "get 2 fir",
        "craft 2 peg using 1 fir",
        "craft 2 peg using 1 fir",
        "craft 1 rack using 3 peg",
        "craft 1 shelf using 1 rack, 1 peg",
    )


def test_a_plan_does_not_use_up_an_input_while_it_makes_another() -> None:
    lines = ("craft 1 peg using 1 fir", "craft 1 rack using 1 peg", "craft 1 shelf using 1 peg, 1 rack")
    book = Book(name="x", recipes=tuple(map(parse_recipe, lines)), tags={})
    assert plan(book, book.recipes, "shelf") == (
        "get 1 fir",
        "craft 1 peg using 1 fir",
        "get 1 fir",
        "craft 1 peg using 1 fir",
        "craft 1 rack using 1 peg",
        "craft 1 shelf using 1 peg, 1 rack",
    )


def test_a_plan_uses_listed_recipes_only() -> None:
    book = tiny_book()
    wax = parse_recipe("craft 1 lamp using 2 wax")
    assert plan(book, [wax], "lamp") == ("get 2 wax", "craft 1 lamp using 2 wax")


def doublings(count: int) -> Book:
    """Items 0 to ``count``, each made from two of the one before it."""
    return Book(name="x", recipes=tuple(parse_recipe(f"craft 1 item {n} using 2 item {n - 1}") for n in range(1, count + 1)), tags={})


def test_a_plan_of_too_many_actions_is_refused_before_it_is_written_down() -> None:
    # Of n doublings: one get and 2^n - 1 crafts.
    fits, longer, vast = doublings(13), doublings(14), doublings(19)
    assert len(plan(fits, fits.recipes, "item 13")) == 2**13
    for book, goal in ((longer, "item 14"), (vast, "item 19")):
        with pytest.raises(WorldError, match=r"^The goal takes more than 10000 actions"):
            plan(book, book.recipes, goal)


def test_a_plan_that_needs_more_of_an_item_than_can_be_held_is_refused() -> None:
    lines = ("craft 1 peg using 2 fir", "craft 1 rack using 999998 fir, 1 peg", "craft 1 shelf using 999999 fir, 1 peg")
    book = Book(name="x", recipes=tuple(map(parse_recipe, lines)), tags={})
    assert plan(book, book.recipes, "rack")[:2] == ("get 999998 fir", "get 2 fir")
    with pytest.raises(WorldError, match=r"^The goal takes more fir at once than the 1000000 that can be held"):
        plan(book, book.recipes, "shelf")


@pytest.mark.slow
def test_a_plan_of_too_many_crafts_in_a_row_is_refused() -> None:
    book = Book(name="x", recipes=tuple(parse_recipe(f"craft 1 item {n} using 1 item {n - 1}") for n in range(1, 402)), tags={})
    assert len(plan(book, book.recipes, "item 200")) == 201
    with pytest.raises(WorldError, match=r"^The goal takes 401 crafts in a row; solutions are told up to 200"):
        plan(book, book.recipes, "item 401")
