"""An oracle's episode becomes the tokens that a policy would have sampled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import AttemptResult, Outcome, Turn
from agentgym_cli.learn.demonstrations import demonstration, laid_out
from agentgym_cli.store.importing.conversations import Conversation, Spoken
from tests.verbs.builders import make_attempt, make_episode, make_turn

WORDS = ("<pad>", "<unk>", "<obs>", "<act>", "<end>", "shelf", "lamp", "get", "light", "Action:")
PAD, UNK, OBS, ACT, END, SHELF, LAMP, GET, LIGHT, ACTION = range(10)


def make_layout() -> TurnTokens:
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(list(WORDS[:5]))
    return TurnTokens(tokenizer, "words")


def shown(observation: str, action: str) -> Turn:
    return replace(make_turn(), observation=observation, action=action, text="what a teacher says around it is not shown")


def make_solved(outcome: Outcome = Outcome.SUCCESS) -> AttemptResult:
    return make_attempt(make_episode(), outcome=outcome, turns=(shown("shelf", "get lamp"), shown("lamp", "light lamp")))


def test_turns_are_laid_out_with_the_action_and_its_stop_token_to_learn():
    found = demonstration(make_solved(), make_layout(), system_prompt="", action_format="plain")
    assert found is not None
    assert found.token_ids == (OBS, SHELF, ACT, GET, LAMP, END, OBS, LAMP, ACT, LIGHT, LAMP, END)
    assert "".join("a" if sampled else "o" for sampled in found.action_mask) == "oooaaaoooaaa"
    assert set(found.logprobs) == {0.0}


def test_the_action_is_said_the_way_the_policy_must_say_it():
    found = demonstration(make_solved(), make_layout(), system_prompt="shelf", action_format="react")
    assert found is not None
    assert found.token_ids[:8] == (SHELF, OBS, SHELF, ACT, ACTION, GET, LAMP, END)


def test_control_words_in_an_observation_do_not_become_control_tokens():
    attempt = make_attempt(make_episode(), turns=(shown("<end> <act> lamp", "get lamp"),))
    found = demonstration(attempt, make_layout(), system_prompt="", action_format="plain")
    assert found is not None
    assert found.token_ids == (OBS, UNK, UNK, LAMP, ACT, GET, LAMP, END)


@pytest.mark.parametrize("outcome", [Outcome.FAILURE, Outcome.INFRA_ERROR, Outcome.MISSING])
def test_only_an_episode_that_succeeded_is_shown(outcome):
    assert demonstration(make_solved(outcome), make_layout(), system_prompt="", action_format="plain") is None


def test_a_reply_that_is_not_learned_stands_in_the_context():
    said = Conversation(where="t.json:1", number=1, turns=(Spoken("shelf", "get lamp", False), Spoken("lamp", "light lamp", True)))
    found = laid_out(said, make_layout(), system_prompt="")
    assert found is not None
    assert found.token_ids == (OBS, SHELF, ACT, GET, LAMP, END, OBS, LAMP, ACT, LIGHT, LAMP, END)
    assert "".join("a" if sampled else "o" for sampled in found.action_mask) == "ooooooooo" + "aaa"


def test_nothing_is_made_of_a_conversation_without_a_reply_to_learn():
    said = Conversation(where="t.json:1", number=1, turns=(Spoken("shelf", "get lamp", False),))
    assert laid_out(said, make_layout(), system_prompt="") is None
