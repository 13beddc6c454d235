"""Addresses hold the whole state of a page, and nothing in them is passed over."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.store.episode_rows import SORTS, EpisodeFilter
from agentgym_cli.view.address import BadAddress, Choice, link, read_choice, read_query
from agentgym_cli.view.frame import anchor
from tests.view.conftest import Reader

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
NUMBER = st.integers(-(10**15) + 1, 10**15 - 1)


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        Choice,
        run=TEXT,
        wanted=st.builds(
            EpisodeFilter,
            task=st.none() | TEXT,
            text=st.none() | TEXT,
            step=st.none() | NUMBER,
            reward_from=st.none() | st.floats(allow_nan=False, allow_infinity=False),
        ),
        sort=st.sampled_from(SORTS),
        descending=st.booleans(),
    )
)
def test_a_choice_comes_back_from_its_address(choice: Choice) -> None:
    assert read_choice(read_query(urlencode(choice.words()).encode())) == choice


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("run=a&outcom=failure", "got 'outcom'"),
        ("run=a&run=b", "'run' once"),
        ("run=a&step=two", "step: expected a whole number"),
        ("run=a&step=9999999999999999", "step: expected a whole number"),
        ("run=a&reward_from=nan", "reward_from: expected a number"),
        ("run=a&sort=size", "sort: expected one of"),
        ("run=a&after=nowhere", "expected one of its scheduled episodes"),
        ("outcome=failure", "a value for run"),
        ("run=a&text=%ff", "expected UTF-8"),
        ("run=%00", "'run': expected text without the character U+0000"),
        ("run=a&reward_from=1_0", "reward_from: expected a number"),
        ("run=a&reward_from=+1", "reward_from: expected a number"),
        ("run=a&reward_from=1e999", "reward_from: expected a number"),
        ("run=a&step=1_0", "step: expected a whole number"),
        ("run=" + "a" * 60_000, "at most 60000 bytes"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_named(read: Reader, query: str, said: str) -> None:
    page = read("episodes", query)
    assert page.status == (404 if "after" in query else 400)
    assert said in page.text.replace("&#x27;", "'")


def test_values_that_are_empty_or_none_are_not_part_of_an_address() -> None:
    assert link("/t", "run", {"run": "a b&c", "step": None}, "t3") == "/t/run?run=a+b%26c#t3"
    assert read_query(b"run=a&task=").values == {"run": "a"}


def test_a_query_has_at_most_fifty_words() -> None:
    with pytest.raises(BadAddress):
        read_query("&".join(f"a{number}=1" for number in range(51)).encode())


@pytest.mark.parametrize("number", ["0.1234567", "5e-324", "-.5", "1e22"])
def test_a_reward_in_an_address_is_the_number_to_its_last_digit(number: str) -> None:
    choice = read_choice(read_query(f"run=a&reward_from={number}".encode()))
    assert choice.wanted.reward_from == float(number)
    assert read_choice(read_query(urlencode(choice.words()).encode())) == choice


def test_a_name_longer_than_an_address_is_no_link() -> None:
    assert anchor("e", link("/t", "episode", {"episode": "é" * 9_000})).text.startswith('<a href="/t/episode?episode=%C3%A9')
    assert anchor("e", link("/t", "episode", {"episode": "é" * 10_001})).text.startswith('<span class="none" title="its name is too long')
