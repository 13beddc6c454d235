"""Padding keeps every token, mask and number where it was sampled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.learn.batch import Example, pad, pieces, with_action_tokens
from tests.learn.models import trajectory

pytestmark = pytest.mark.torch

layouts = st.lists(st.text("oa", min_size=1, max_size=12).map(lambda text: "o" + text), min_size=1, max_size=8)


def test_a_ragged_batch_by_hand():
    batch = pad([Example(trajectory=trajectory("oaoa", logprob=-0.5), advantage=2.0), Example(trajectory=trajectory("oa", offset=5), advantage=-1.0)])
    assert batch.token_ids.tolist() == [[0, 4, 10, 5], [5, 9, 0, 0]]
    assert batch.action_mask.tolist() == [[False, True, False, True], [False, True, False, False]]
    assert batch.old_logp.tolist() == [[0, -0.5, 0, -0.5], [0, -1, 0, 0]]
    assert batch.advantage.tolist() == [[0, 2, 0, 2], [0, -1, 0, 0]]
    assert batch.action_tokens == 3


def test_promise_05_a_trajectory_without_action_tokens_is_left_out():
    kept = Example(trajectory=trajectory("ooa"), advantage=1.0)
    assert with_action_tokens([Example(trajectory=trajectory("ooo"), advantage=1.0), kept]) == [kept]


def test_a_first_token_that_nothing_predicts_is_not_scored():
    first = Example(trajectory=trajectory("aoa"), advantage=1.0)
    assert pad([first]).action_mask.tolist() == [[False, False, True]]
    assert with_action_tokens([Example(trajectory=trajectory("aoo"), advantage=1.0)]) == []


@given(layouts, st.integers(1, 40))
def test_pieces_hold_every_action_token_once_and_keep_to_their_size(spoken: list[str], tokens: int):
    examples = [Example(trajectory=trajectory(text, offset=place), advantage=float(place)) for place, text in enumerate(spoken)]
    made = pieces(examples, tokens=tokens)
    assert sum(piece.action_tokens for piece in made) == sum(text.count("a") for text in spoken)
    rows = sorted(tuple(row) for piece in made for row in piece.advantage.sum(1, keepdim=True).tolist())
    assert rows == sorted((float(place * text.count("a")),) for place, text in enumerate(spoken))
    assert all(piece.token_ids.numel() <= tokens or piece.token_ids.shape[0] == 1 for piece in made)
