"""Answers scored by hand after SQuAD's normalisation, and responses read as upstream reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_envs.searchqa.scoring import exact_match, f1, normalised
from agentgym_envs.searchqa.tags import Answer, Search, read


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Amber Letter", "amber letter"),
        ("  an  Apple a day, the U.S.A.! ", "apple day usa"),
        ("theatre and another", "theatre and another"),
        ("Élan’s", "élan’s"),
        ("1,234", "1234"),
        ("The", ""),
        ("", ""),
    ],
)
def test_normalisation_lowers_and_takes_out_ascii_punctuation_articles_and_spare_spaces(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("the amber letter.", ("Amber Letter",), True),
        ("AMBER", ("Amber Letter", "Amber"), True),
        ("Letter Amber", ("Amber Letter",), False),
        ("Amber Letters", ("Amber Letter",), False),
        ("", ("Amber",), False),
        ("the", ("Amber",), False),
    ],
)
def test_exact_match_is_equality_with_one_accepted_answer_after_normalisation(answer: str, accepted: tuple[str, ...], expected: bool) -> None:
    assert exact_match(answer, accepted) is expected


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        # Shared words / words said / words wanted: 2 of 3 and 2 gives precision 2/3, recall 1, F1 2 * (2/3) / (5/3).
        ("big amber letter", ("Amber Letter",), 0.8),
        # 1 of 2 and 1 of 3.
        ("amber harvest", ("Amber Letter Box",), 0.4),
        # "go" counts once of the three times it was said.
        ("go go go", ("go now",), 0.4),
        ("harvest", ("Amber Letter",), 0.0),
        ("letter", ("Amber Letter", "The Letter"), 1.0),
        ("", ("Amber",), 0.0),
    ],
)
def test_f1_worked_out_by_hand_is_the_best_over_the_accepted_answers(answer: str, accepted: tuple[str, ...], expected: float) -> None:
    assert f1(answer, accepted) == pytest.approx(expected, abs=1e-12)


@given(st.text(max_size=40), st.text(max_size=40))
def test_an_exact_match_has_an_f1_of_one_and_no_f1_is_beyond_it(said: str, accepted: str) -> None:
    score = f1(said, [accepted])
    assert 0 <= score <= 1
    if exact_match(said, [accepted]) and normalised(said):
        assert score == 1


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<search>red fox</search>", Search("red fox")),
        ("<think>So.</think> <search>red\nfox</search> and so on", Search("red\nfox")),
        ("<search>a</search><answer>b</answer>", Search("a")),
        ("<answer>b</answer><search>a</search>", Answer("b")),
        ("<answer>first</answer> no, <answer> second </answer>", Answer("second")),
        ("<answer>b</answer><search>a</search><answer>c</answer>", Answer("c")),
        ("<search>never closed <answer>b</answer>", Answer("b")),
        ("<answer>never closed <search>a</search>", Search("a")),
        ("<answer><search>a</search></answer>", Answer("<search>a</search>")),
        ("<search></search>", Search("")),
        ("</search><search>a", None),
        ("<Search>a</Search>", None),
        ("<search >a</search >", None),
        ("search[a]", None),
        ("", None),
    ],
)
def test_the_first_complete_tag_decides_and_the_last_answer_counts(response: str, expected: Search | Answer | None) -> None:
    assert read(response) == expected


@given(st.lists(st.sampled_from(["<search>", "</search>", "<answer>", "</answer>", "a", " b "]), max_size=12).map("".join))
def test_responses_are_read_as_by_upstreams_patterns(response: str) -> None:
    first = re.search(r"<(search|answer)>(.*?)</\1>", response, re.DOTALL)
    if first is None:
        expected: Search | Answer | None = None
    elif first[1] == "search":
        expected = Search(first[2])
    else:
        expected = Answer(re.findall(r"<answer>(.*?)</answer>", response, re.DOTALL)[-1].strip())
    assert read(response) == expected


def test_a_megabyte_of_open_tags_is_read_at_once() -> None:
    assert read("<search>" * 125_000) is None
    assert read("<answer></answer>" * 60_000) == Answer("")
