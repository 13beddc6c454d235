"""The two shipped books and their task lists: counts, solvability, splits, and that a prompt depends on nothing but its number."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import chain
from pathlib import Path

import pytest

from agentgym_envs.textcraft.book import Book, shipped_book
from agentgym_envs.textcraft.listing import first_observation, listed_recipes, needed_recipes
from agentgym_envs.textcraft.make.laptop import HELD_OUT
from agentgym_envs.textcraft.world import TextCraft

pytestmark = pytest.mark.slow

TASKS = Path(__file__).parents[2] / "recipes/tasks"
BIG, LAPTOP = shipped_book("big"), shipped_book("laptop")


def rows(name: str) -> list[Mapping[str, str]]:
    """The rows of a shipped task list."""
    with (TASKS / f"textcraft_{name}.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def counts(values: object) -> dict[object, int]:
    return dict(sorted(Counter(values).items()))  # type: ignore[call-overload]


def unmerged_steps(actions: tuple[str, ...], book: Book) -> int:
    """Steps where every craft gets what it needs by itself, one get for each found input: how the game's steps were counted."""
    crafts = [action.partition(" using ")[2].split(", ") for action in actions if action.startswith("craft")]
    return sum(1 + sum(book.is_found(part.partition(" ")[2]) for part in parts) for parts in crafts)


def test_the_big_book_has_the_games_counts_exactly() -> None:
    inputs = list(chain.from_iterable(recipe.inputs for recipe in BIG.recipes))
    assert (len(BIG.depths), len(BIG.by_output), len(BIG.recipes), len(inputs), len(BIG.tags)) == (676, 544, 613, 973, 23)
    assert counts(BIG.depths.values()) == {0: 132, 1: 140, 2: 280, 3: 113, 4: 11}
    assert counts(len(recipe.inputs) for recipe in BIG.recipes) == {1: 306, 2: 261, 3: 41, 4: 3, 5: 2}
    assert counts(recipe.count for recipe in BIG.recipes) == {1: 301, 2: 27, 3: 65, 4: 62, 6: 59, 8: 80, 16: 19}
    assert counts(part.count for part in inputs) == {1: 384, 2: 111, 3: 111, 4: 114, 5: 17, 6: 123, 7: 11, 8: 83, 9: 19}
    assert sum(part.name in BIG.tags for part in inputs) == 39
    sizes = sorted(len(members) for members in BIG.tags.values())
    assert (sizes[0], sizes[-1]) == (1, 16)
    per_item = counts(len(recipes) for recipes in BIG.by_output.values())
    assert (per_item[1], per_item[2], sum(per_item[many] for many in (3, 4, 5))) == (485, 54, 5)
    assert counts(len(name.split()) for name in BIG.depths) == {1: 107, 2: 381, 3: 141, 4: 44, 5: 3}


def test_big_tasks_are_as_long_as_the_games_within_tolerances() -> None:
    steps: dict[int, list[int]] = {depth: [] for depth in (1, 2, 3, 4)}
    lines: dict[int, list[int]] = {depth: [] for depth in (1, 2, 3, 4)}
    session = TextCraft(book=BIG).open()
    for index, goal in enumerate(BIG.goals):
        session.reset(index)
        steps[BIG.depths[goal]].append(unmerged_steps(session.oracle(), BIG))
        lines[BIG.depths[goal]].append(len(str(session.look("commands")).split("\n")))
    means = {depth: (sum(steps[depth]) / len(steps[depth]), sum(lines[depth]) / len(lines[depth])) for depth in steps}
    # The game: 2.2 / 5.2 / 10.2 / 18.6 steps (at most 4 / 11 / 48 / 27), 5 / 14 / 20 / 21 recipes listed.
    for depth, expected in {1: 2.2, 2: 5.2, 3: 10.2, 4: 18.6}.items():
        assert means[depth][0] == pytest.approx(expected, rel=0.05), f"steps at depth {depth}"
    for depth, expected, tolerance in ((1, 5, 0.1), (2, 14, 0.1), (3, 20, 0.1), (4, 21, 0.5)):
        assert means[depth][1] == pytest.approx(expected, rel=tolerance), f"recipes listed at depth {depth}"
    assert {depth: max(counted) <= most for (depth, counted), most in zip(steps.items(), (4, 18, 48, 27), strict=True)} == dict.fromkeys(steps, True)


@pytest.mark.parametrize("book", [BIG, LAPTOP], ids=lambda book: book.name)
def test_the_oracle_solves_every_task_with_listed_commands_only(book: Book) -> None:
    session = TextCraft(book=book).open()
    for index in range(book.task_count):
        prompt = session.reset(index).observation
        actions = session.oracle()
        replies = [session.step(action) for action in actions]
        assert [(reply.reward, reply.done) for reply in replies] == [(0, False)] * (len(actions) - 1) + [(1, True)]
        assert all(reply.observation.startswith(("Got ", "Crafted ")) for reply in replies)
        listed = set(prompt.split("\n")[1:-2])
        if not book.tags:
            assert {action for action in actions if action.startswith("craft")} <= listed


def test_at_most_ten_distractors_are_listed() -> None:
    for index, goal in enumerate(BIG.goals):
        needed = needed_recipes(BIG, goal)
        listed = listed_recipes(BIG, index)
        assert set(needed) <= set(listed)
        assert len(listed) - len(needed) <= 10


def test_the_laptop_book_is_small() -> None:
    assert counts(LAPTOP.depths.values()) == {0: 20, 1: 18, 2: 18, 3: 12}
    assert LAPTOP.task_count == 48 * 40
    assert max(len(listed_recipes(LAPTOP, index)) for index in range(LAPTOP.task_count)) <= 8
    assert max(len(name.split()) for name in LAPTOP.depths) == 2


@pytest.mark.parametrize("book", [BIG, LAPTOP], ids=lambda book: book.name)
def test_the_task_list_pins_the_world_as_it_is(book: Book) -> None:
    listed = rows(book.name)
    assert [int(row["index"]) for row in listed] == list(range(book.task_count))
    for index, row in enumerate(listed):
        prompt = first_observation(book, index)
        goal = prompt.rpartition("Goal: craft ")[2].removesuffix(".")
        assert (row["goal"], row["category"]) == (goal, f"depth {book.depths[goal]}")
        assert row["digest"] == sha256(prompt.encode()).hexdigest()[:16]


def test_the_big_test_split_is_the_published_hundred() -> None:
    listed = rows("big")
    test = [int(row["index"]) for row in listed if row["split"] == "test"]
    assert test == [*range(31), *range(140, 181), *range(420, 445), *range(533, 536)]
    assert counts(row["category"] for row in listed if row["split"] == "test") == {"depth 1": 31, "depth 2": 41, "depth 3": 25, "depth 4": 3}
    train = [int(row["index"]) for row in listed if row["split"] == "train"]
    assert train == [*range(31, 140), *range(181, 420), *range(445, 533), 537]


def test_the_laptop_splits_hold_out_listings_and_goals() -> None:
    listed = rows("laptop")
    goals = {name: {row["goal"] for row in listed if row["split"] == name} for name in ("train", "unseen_tasks", "unseen_goals")}
    assert goals["train"] == goals["unseen_tasks"] == set(LAPTOP.goals) - set(HELD_OUT)
    assert goals["unseen_goals"] == set(HELD_OUT)
    assert counts(row["split"] for row in listed) == {"": 440, "train": 1200, "unseen_goals": 80, "unseen_tasks": 200}
    assert counts(LAPTOP.depths[goal] for goal in HELD_OUT) == {1: 3, 2: 3, 3: 2}


def test_no_unseen_task_repeats_a_prompt_of_training() -> None:
    listed = rows("laptop")
    trained = {row["digest"] for row in listed if row["split"] == "train"}
    unseen = [row["digest"] for row in listed if row["split"].startswith("unseen")]
    assert trained.isdisjoint(unseen)
    assert len(set(unseen)) == len(unseen)


def test_goals_held_out_are_made_on_the_way_to_trained_goals_where_the_depth_allows() -> None:
    trained = [goal for goal in LAPTOP.goals if goal not in HELD_OUT]
    on_the_way = {recipe.output for goal in trained for recipe in needed_recipes(LAPTOP, goal)}
    assert {goal for goal in HELD_OUT if LAPTOP.depths[goal] < 3} <= on_the_way


def test_every_horizon_of_the_laptop_recipe_suffices_for_some_goals_of_every_depth() -> None:
    session = TextCraft(book=LAPTOP).open()
    shortest: dict[int, int] = {}
    longest: dict[int, int] = {}
    for rank, goal in enumerate(LAPTOP.goals):
        session.reset(rank)
        steps, depth = len(session.oracle()), LAPTOP.depths[goal]
        shortest[depth], longest[depth] = min(shortest.get(depth, steps), steps), max(longest.get(depth, steps), steps)
    assert shortest == {1: 2, 2: 4, 3: 6}
    assert longest == {1: 3, 2: 5, 3: 8}


def test_many_resets_at_once_give_the_prompts_of_resets_alone() -> None:
    world = TextCraft(book=BIG)
    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda index: world.open().reset(index).observation, list(range(0, 544, 4)) * 2))
    assert together == [first_observation(BIG, index) for index in range(0, 544, 4)] * 2


PRINT_DIGESTS = """
from hashlib import sha256
from agentgym_envs.textcraft.book import shipped_book
from agentgym_envs.textcraft.world import TextCraft
for name, step in (("big", 1), ("laptop", 7)):
    session = TextCraft(book=shipped_book(name)).open()
    said = sha256()
    for index in range(0, session.world.task_count, step):
        said.update(repr((session.reset(index), session.oracle())).encode())
    print(said.hexdigest())
"""


@pytest.mark.slow
def test_mended_prompts_and_plans_do_not_depend_on_pythons_hash_seed() -> None:
    said = []
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=120, check=True
        )
        said.append(done.stdout.split())
    assert said[0] == said[1]
    assert len(set(said[0])) == 2
