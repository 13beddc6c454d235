"""The small corpus that ships: what its script writes, and that its questions need the entries that they name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from agentgym_envs.searchqa.make.__main__ import made_files
from agentgym_envs.searchqa.make.country import drawn
from agentgym_envs.searchqa.passages import passage_of, read_lines
from agentgym_envs.searchqa.questions import Question, read_questions

HOUSE = Path(__file__).parents[2]
SMALL = HOUSE / "envs/agentgym_envs/searchqa/small"
ENTRIES = {passage.title: passage.text for passage in (passage_of(value, where) for where, value in read_lines(SMALL / "corpus.jsonl"))}
QUESTIONS = read_questions(SMALL / "questions.jsonl").all


@pytest.mark.parametrize(("name", "text"), [pytest.param(name, text, id=Path(name).name) for name, text in made_files()])
def test_the_script_writes_what_is_committed(name: str, text: str) -> None:
    assert (HOUSE / name).read_text(encoding="utf-8") == text


def test_there_are_about_200_entries_and_120_questions_of_which_more_than_half_need_two_hops() -> None:
    assert len(ENTRIES) == len((SMALL / "corpus.jsonl").read_text(encoding="utf-8").splitlines()) == 206
    assert Counter(question.category for question in QUESTIONS) == {"two hops": 66, "one hop": 46, "comparison": 8}
    assert len({question.text for question in QUESTIONS}) == 120


@pytest.mark.parametrize("question", [question for question in QUESTIONS if question.category == "one hop"], ids=lambda question: question.id)
def test_one_entry_that_the_question_names_has_the_answer_of_one_hop(question: Question) -> None:
    [title] = question.searches
    assert title in question.text
    assert has(ENTRIES[title], question.answers[0])
    assert not has(question.text, question.answers[0])


@pytest.mark.parametrize("question", [question for question in QUESTIONS if question.category == "two hops"], ids=lambda question: question.id)
def test_the_first_entry_of_two_hops_names_the_second_and_has_no_answer(question: Question) -> None:
    first, second = question.searches
    assert has(question.text, first)
    assert not has(question.text, second)
    assert has(ENTRIES[first], second)
    assert not has(ENTRIES[first], question.answers[0])
    assert has(ENTRIES[second], question.answers[0])


@pytest.mark.parametrize("question", [question for question in QUESTIONS if question.category == "comparison"], ids=lambda question: question.id)
def test_a_comparison_is_between_the_years_of_two_entries(question: Question) -> None:
    years = {title: int(re.findall(r"\b1\d{3}\b", ENTRIES[title])[0]) for title in question.searches}
    assert all(has(question.text, title) for title in years)
    assert question.answers == (min(years, key=lambda title: years[title]),)


def test_nobody_makes_anything_before_they_are_born_or_teaches_somebody_older() -> None:
    country = drawn("another seed")
    born = {person.name: person.born for person in country.people}
    assert all(24 <= work.year - born[work.maker] <= 61 for work in country.works)
    assert all(24 <= building.year - born[building.architect] <= 61 for building in country.buildings)
    assert all(15 <= person.born - born[person.teacher] <= 60 for person in country.people if person.teacher in born)


def test_another_seed_is_another_country_and_the_same_seed_the_same() -> None:
    assert drawn("a") == drawn("a")
    assert not {town.name for town in drawn("a").towns} & {town.name for town in drawn("b").towns}


def has(text: str, words: str) -> bool:
    """Whether the words stand in the text, not as parts of other words."""
    return re.search(rf"\b{re.escape(words)}\b", text) is not None
