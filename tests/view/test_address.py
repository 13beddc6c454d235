"""Addresses hold the whole state of a page, and nothing in them is passed over."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.store.episode_rows import SORTS, EpisodeFilter
from agentgym_cli.view.address import BadAddress, Choice, link, read_choice, read_query
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
            reward_from=st.none() | st.sampled_from([0.0, -1.5, 0.25]),
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
        ("run=a&text=%00", "text"),
        ("run=" + "a" * 9000, "at most 8192 bytes"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_named(read: Reader, query: str, said: str) -> None:
    page = read("episodes", query)
    assert page.status in (400, 404)
    assert said in page.text.replace("&#x27;", "'")


def test_values_that_are_empty_or_none_are_not_part_of_an_address() -> None:
    assert link("/t", "run", {"run": "a b&c", "step": None}, "t3") == "/t/run?run=a+b%26c#t3"
    assert read_query(b"run=a&task=").values == {"run": "a"}


def test_a_query_has_at_most_fifty_words() -> None:
    with pytest.raises(BadAddress):
        read_query("&".join(f"a{number}=1" for number in range(51)).encode())
