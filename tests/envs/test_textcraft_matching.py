"""Inputs against what a recipe asks for: as trying every order would have it, and in time that stays small."""

from __future__ import annotations

import time
from functools import partial
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_envs.textcraft.book import Book, Ingredient, parse_recipe
from agentgym_envs.textcraft.matching import satisfies
from agentgym_envs.textcraft.world import TextCraft

KINDS = ("ash", "elm", "fir", "oak")
TAGS = {"logs": ("ash", "elm", "fir"), "soft": ("fir", "oak")}
MADE = tuple(parse_recipe(f"craft 1 {kind} using 1 {kind} tree") for kind in KINDS)
BOOK = Book(name="x", recipes=MADE, tags=TAGS)
PARTS = st.builds(Ingredient, st.sampled_from(KINDS), st.integers(1, 2))
WANTED = st.builds(Ingredient, st.sampled_from((*KINDS, *TAGS)), st.integers(1, 2))


def by_trying_every_order(wanted: list[Ingredient], given_parts: list[Ingredient]) -> bool:
    """The rule in other words."""
    return len(wanted) == len(given_parts) and any(
        all(want.count == part.count and part.name in TAGS.get(want.name, (want.name,)) for want, part in zip(wanted, order, strict=True))
        for order in permutations(given_parts)
    )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(WANTED, max_size=5), st.lists(PARTS, max_size=5))
def test_a_recipe_is_satisfied_exactly_where_some_order_of_the_inputs_is(wanted: list[Ingredient], parts: list[Ingredient]) -> None:
    assert satisfies(BOOK, tuple(wanted), parts) == by_trying_every_order(wanted, parts)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(WANTED, min_size=1, max_size=5).flatmap(lambda wanted: st.tuples(st.just(wanted), chosen(wanted))))
def test_members_of_what_is_asked_for_satisfy_it_in_any_order(case: tuple[list[Ingredient], list[Ingredient]]) -> None:
    wanted, parts = case
    assert satisfies(BOOK, tuple(wanted), parts)
    assert not satisfies(BOOK, tuple(wanted), parts[1:])


def chosen(wanted: list[Ingredient]) -> st.SearchStrategy[list[Ingredient]]:
    """One input for each that is wanted, in some order."""
    parts = [st.sampled_from(TAGS.get(want.name, (want.name,))).map(partial(Ingredient, count=want.count)) for want in wanted]
    return st.tuples(*parts).flatmap(lambda made: st.permutations(list(made)))


def test_an_input_that_is_taken_makes_room_for_another() -> None:
    # The first takes fir, which the second needs too: the first moves on to ash.
    assert satisfies(BOOK, (Ingredient("logs", 1), Ingredient("soft", 1)), [Ingredient("fir", 1), Ingredient("ash", 1)])
    assert not satisfies(BOOK, (Ingredient("soft", 1), Ingredient("soft", 1)), [Ingredient("fir", 1), Ingredient("ash", 1)])


@pytest.mark.parametrize("inputs", [9, 32])
def test_a_craft_with_many_inputs_of_one_tag_is_answered_at_once(inputs: int) -> None:
    recipe = parse_recipe(f"craft 1 hull using {', '.join(['1 logs'] * (inputs - 1))}, 1 oak")
    session = TextCraft(book=Book(name="x", recipes=(*MADE, recipe), tags=TAGS)).open()
    session.reset(4)
    for kind in ("ash", "oak"):
        session.step(f"get {inputs} {kind} tree")
        for _ in range(inputs):
            session.step(f"craft {kind} using 1 {kind} tree")
    began = time.process_time()
    wrong = session.step(f"craft hull using {', '.join(['1 ash'] * inputs)}")
    right = session.step(f"craft hull using {', '.join(['1 ash'] * (inputs - 1))}, 1 oak")
    assert time.process_time() - began < 1
    assert (wrong.observation, right.done) == ("Could not find a valid recipe for 1 hull", True)
