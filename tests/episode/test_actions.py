"""How actions are read from what a policy said."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.env.contract import ActionRule
from agentgym_cli.env.dialect import load_dialect, shipped_dialects
from agentgym_cli.episode.actions import MAX_TEXT_CHARS, action_text, read_action, world_refused
from tests.env.upstream_worlds import TOOLS
from tests.episode.fakes import PLAIN, REACT


def test_plain_takes_the_whole_text_stripped() -> None:
    parsed = read_action("  get 1 stone\n", PLAIN)
    assert (parsed.action, parsed.valid, parsed.local_observation) == ("get 1 stone", True, None)


@pytest.mark.parametrize("text", ["", "  \n\t"])
def test_silence_is_an_invalid_action_that_the_world_still_sees(text: str) -> None:
    parsed = read_action(text, PLAIN)
    assert (parsed.action, parsed.valid, parsed.local_observation) == ("", False, None)


def test_react_reads_behind_the_marker_up_to_the_end_of_the_line() -> None:
    assert read_action("Thought: I need wood.\n\nAction:\nget 1 oak log\nand more", REACT).action == "get 1 oak log"


def test_react_deletes_characters_and_folds_the_spaces_left() -> None:
    assert read_action("Action: get 2 ** `oak`  log.", REACT).action == "get 2 oak log"


def test_two_actions_are_answered_without_the_world() -> None:
    parsed = read_action("Action: inventory\nAction: get 1 stone", REACT)
    assert (parsed.action, parsed.valid, parsed.local_observation) == ("", False, "One action only.")


def test_two_actions_without_such_an_answer_take_the_last() -> None:
    rule = ActionRule(pattern=r"Action:\s*(.*?)(?=\n|$)", remove=None, on_many=None, on_none=None)
    assert read_action("Action: inventory\nAction: get 1 stone", rule).action == "get 1 stone"


def test_no_action_sends_the_empty_one() -> None:
    parsed = read_action("I would rather not.", REACT)
    assert (parsed.action, parsed.valid, parsed.local_observation) == ("", False, None)


def test_no_action_is_answered_without_the_world_where_the_rule_says_so() -> None:
    rule = ActionRule(pattern="do (.*)", remove=None, on_many=None, on_none="Say do.")
    parsed = read_action("hello", rule)
    assert (parsed.action, parsed.valid, parsed.local_observation) == ("", False, "Say do.")


def test_an_action_that_only_held_deleted_characters_is_invalid() -> None:
    parsed = read_action("Action: !!!", REACT)
    assert (parsed.action, parsed.valid) == ("", False)


def test_a_group_that_took_no_part_is_the_empty_action() -> None:
    rule = ActionRule(pattern="go( north)?", remove=None, on_many=None, on_none=None)
    assert read_action("go", rule) == read_action("", PLAIN)


@pytest.mark.parametrize("rule", [PLAIN, REACT])
def test_a_text_over_the_limit_holds_no_action(rule: ActionRule) -> None:
    assert read_action("Action: " + "a" * (MAX_TEXT_CHARS - 8), rule).valid
    assert not read_action("Action: " + "a" * (MAX_TEXT_CHARS - 7), rule).valid


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=200))
def test_promise_11_any_text_gives_an_action_that_can_be_sent(text: str) -> None:
    for rule in (PLAIN, REACT):
        action = read_action(text, rule).action
        json.dumps(action, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("name", shipped_dialects())
@pytest.mark.parametrize("piece", ["Action:", "Action: ", "Action:\n", " ", "\n", "a", "Action: a\n", "\ud800", "```", "(", "\x1b[2J"])
def test_promise_11_hostile_text_is_read_in_bounded_time(name: str, piece: str) -> None:
    text = piece * (MAX_TEXT_CHARS // len(piece))
    for rule in load_dialect(name).rules().actions.values():
        began = time.process_time()
        read_action(text, rule)
        assert time.process_time() - began < 2.0


@pytest.mark.parametrize("name", shipped_dialects())
@pytest.mark.parametrize("action", ["inventory", "get 2 oak log", "craft 4 stick using 2 oak planks, 1 bamboo"])
def test_what_a_teacher_says_is_read_back_as_the_action(name: str, action: str) -> None:
    actions = load_dialect(name).rules().actions
    if name in TOOLS:
        action = f"Action: {action}"
    for action_format in ("react", "plain"):
        if action_format in actions:
            assert read_action(action_text(action, action_format), actions[action_format]).action == action  # type: ignore[arg-type]


def test_a_refusal_is_looked_for_at_the_start_of_an_observation() -> None:
    assert world_refused("Could not execute x", ["Wrong", "Could not "])
    assert not world_refused("I could not. Could not execute x", ["Wrong", "Could not "])
    assert not world_refused("Could not execute x", [])
