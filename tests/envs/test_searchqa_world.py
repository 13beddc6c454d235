"""SearchQA's rules and words: episodes worked out by hand."""

from __future__ import annotations

import pytest

from agentgym_envs.protocol import Start, Step, WorldError
from agentgym_envs.searchqa.passages import Passage
from agentgym_envs.searchqa.world import MOST_ACTION_CHARACTERS, MOST_PASSAGE_CHARACTERS, SearchSession
from tests.envs.questions import WordSearch, tiny_searchqa

INVALID = "Your previous action is invalid. Search with <search>words</search>, or answer with <answer>the answer</answer>."
RIGHT = {"info": {"exact_match": 1.0, "f1": 1.0}}


def started(index: int = 1, *, search: WordSearch | None = None, unlimited_guesses: bool = False) -> SearchSession:
    session = tiny_searchqa(search=search, unlimited_guesses=unlimited_guesses).open()
    session.reset(index)
    return session


def test_an_episode_of_two_hops_worked_out_by_hand() -> None:
    session = tiny_searchqa().open()
    assert session.reset(1) == Start("Question: Where was its composer born?\nYou may answer once.")
    assert session.step("<think>First the opera.</think><search>Amber Letter</search>") == Step(
        "<information>\nDoc 1 (Title: The Amber Letter) The Amber Letter is an opera by Ilva Torsen.\n</information>", 0.0, False
    )
    assert session.step("<search>Ilva Torsen</search>") == Step(
        "<information>\n"
        "Doc 1 (Title: The Amber Letter) The Amber Letter is an opera by Ilva Torsen.\n"
        "Doc 2 (Title: Ilva Torsen) Ilva Torsen was born in Korveld.\n"
        "</information>",
        0.0,
        False,
    )
    assert session.step("<answer>the Korveld.</answer>") == Step("Congratulations! Your answer is correct.", 1.0, True, RIGHT)


def test_any_accepted_answer_is_right() -> None:
    assert started(0).step("<answer>Torsen</answer>").reward == 1.0


def test_mended_a_wrong_answer_ends_the_task_and_is_scored() -> None:
    session = started(0)
    # "torsen" is one of the two words said and of the two wanted; of the answer with one word it is all: 2 * 1 / (2 + 1).
    expected = {"info": {"exact_match": 0.0, "f1": pytest.approx(2 / 3)}}
    assert session.step("<answer>Olva Torsen</answer>") == Step("Sorry, your answer is incorrect.", 0.0, True, expected)
    with pytest.raises(WorldError, match=r"^The task has finished\. Reset the session to start a task\.$"):
        session.step("<answer>Ilva Torsen</answer>")


def test_with_unlimited_guesses_a_wrong_answer_does_not_end_the_task_as_upstream_and_the_prompt_says_so() -> None:
    session = tiny_searchqa(unlimited_guesses=True).open()
    assert session.reset(1).observation == "Question: Where was its composer born?\nA wrong answer does not end the task."
    wrong = Step("Sorry, your answer is incorrect. Please try again.", 0.0, False, {"info": {"exact_match": 0.0, "f1": 0.0}})
    assert [session.step("<answer>Oslo</answer>") for _ in range(3)] == [wrong] * 3
    assert session.step("<answer>Korveld</answer>") == Step("Congratulations! Your answer is correct.", 1.0, True, RIGHT)
    assert session.look("metadata")["unlimited_guesses"] is True  # type: ignore[index, call-overload]


@pytest.mark.parametrize("unlimited_guesses", [False, True])
def test_mended_done_latches_and_a_right_answer_is_paid_once(unlimited_guesses: bool) -> None:
    session = started(unlimited_guesses=unlimited_guesses)
    session.step("<answer>Korveld</answer>")
    for action in ("<answer>Korveld</answer>", "<search>Korveld</search>", "nonsense"):
        with pytest.raises(WorldError, match=r"^The task has finished"):
            session.step(action)
    session.reset(1)
    assert session.step("<answer>Korveld</answer>").reward == 1.0


@pytest.mark.parametrize("action", ["", "Korveld", "<answer>Korveld", "get 1 flax", "\x00\x1b[2J\u202e", "<search>a</answer>"])
def test_a_response_without_a_complete_tag_is_called_invalid_and_changes_nothing(action: str) -> None:
    session = started()
    assert session.step(action) == Step(INVALID, 0.0, False)
    assert session.step("<answer>Korveld</answer>").reward == 1.0


def test_mended_a_response_longer_than_the_limit_is_not_read() -> None:
    session = started()
    answer = "<answer>Korveld</answer>"
    assert session.step("x" * (MOST_ACTION_CHARACTERS + 1 - len(answer)) + answer) == Step(
        "Your previous action is invalid: it is longer than 100000 characters.", 0.0, False
    )
    assert session.step("x" * (MOST_ACTION_CHARACTERS - len(answer)) + answer).reward == 1.0


def test_a_search_asks_for_three_passages_with_the_words_between_its_tags() -> None:
    search = WordSearch()
    started(search=search).step('<search> river AND "NOT" (a*) OR title:x^9 -- \n~1</search>')
    assert search.asked == [(' river AND "NOT" (a*) OR title:x^9 -- \n~1', 3)]


def test_a_search_that_finds_nothing_says_so() -> None:
    assert started().step("<search>unobtainium</search>") == Step(
        "<information>\nNothing was found. Search with other words.\n</information>", 0.0, False
    )


def test_a_long_passage_is_shown_in_part() -> None:
    search = WordSearch((Passage("x", "x" * MOST_PASSAGE_CHARACTERS), Passage("x", "x" * (MOST_PASSAGE_CHARACTERS + 1))))
    shown = started(search=search).step("<search>x</search>").observation.split("\n")
    assert shown[1] == "Doc 1 (Title: x) " + "x" * 4_000
    assert shown[2] == "Doc 2 (Title: x) " + "x" * 4_000 + " ..."


@pytest.mark.parametrize("index", [-1, 2, 10**50])
def test_a_task_number_beyond_the_range_is_refused_and_changes_nothing(index: int) -> None:
    session = started()
    with pytest.raises(WorldError, match=r"^The id -?\d{1,40} is out of range: expected 0 to 1\.$"):
        session.reset(index)
    assert session.step("<answer>Korveld</answer>").reward == 1.0


def test_the_oracle_searches_as_the_file_says_or_else_for_the_question() -> None:
    assert started(1).oracle() == ("<search>Amber Letter</search>", "<search>Ilva Torsen</search>", "<answer>Korveld</answer>")
    assert started(0).oracle() == ("<search>Who composed The Amber Letter?</search>", "<answer>Ilva Torsen</answer>")


def test_a_session_shows_its_goal_and_what_a_result_depends_on_and_nothing_else() -> None:
    session = started()
    assert session.look("goal") == "Where was its composer born?"
    assert session.look("metadata") == {
        "id": "q1",
        "category": "two hops",
        "questions": "d" * 64,
        "corpus": "c" * 64,
        "unlimited_guesses": False,
    }
    with pytest.raises(WorldError, match=r"^There is nothing called 'answers' to look at\.$"):
        session.look("answers")
    with pytest.raises(WorldError, match="no verifier"):
        session.verify()


def test_a_session_without_a_task_refuses_everything() -> None:
    session = tiny_searchqa().open()
    for call in (lambda: session.step("<answer>a</answer>"), lambda: session.look("goal"), session.oracle):
        with pytest.raises(WorldError, match="has no task"):
            call()


def test_sessions_of_one_world_do_not_share_their_end() -> None:
    world = tiny_searchqa()
    first, second = world.open(), world.open()
    first.reset(1)
    second.reset(1)
    first.step("<answer>Oslo</answer>")
    assert second.step("<answer>Korveld</answer>").reward == 1.0
