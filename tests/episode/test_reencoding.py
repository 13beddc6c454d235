"""Tokens by kind, and those that their own text would not give again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.episode.reencoding import differing, kinds_of, spans_of
from tests.episode.chats import BYTES, CHATML, laid_out

TOKENS = laid_out(CHATML)[0]
IDS = st.lists(st.integers(0, 5), max_size=40)


def marked(ids: str, again: str) -> str:
    """One letter a token; a hat below those that differ."""
    return "".join("^" if mark else "." for mark in differing([ord(letter) for letter in ids], [ord(letter) for letter in again]))


def test_equal_encodings_differ_nowhere() -> None:
    assert marked("abc", "abc") == "..."


def test_two_tokens_that_would_merge_differ_and_their_neighbours_do_not() -> None:
    assert marked("xabyz", "xAyz") == ".^^.."


def test_a_token_that_would_split_differs() -> None:
    assert marked("xAyzw", "xabyzw") == ".^..."


def test_two_places_are_marked_apart() -> None:
    assert marked("abxyzwcdrst", "AxyzwCrst") == "^^....^^..."


def test_what_differs_at_the_end_is_marked() -> None:
    assert marked("xyzab", "xyzA") == "...^^"


def test_encodings_without_a_common_place_differ_everywhere() -> None:
    assert marked("abcd", "ABCDEF") == "^^^^"


@given(IDS)
def test_an_encoding_never_differs_from_itself(ids: list[int]) -> None:
    assert differing(ids, ids) == [False] * len(ids)


@pytest.mark.slow
@given(IDS, IDS)
def test_every_token_gets_one_mark(ids: list[int], again: list[int]) -> None:
    marks = differing(ids, again)
    assert len(marks) == len(ids)
    rest = iter(again)
    assert all(token in rest for token, mark in zip(ids, marks, strict=True) if not mark)


def test_kinds_follow_the_mask_and_the_stop() -> None:
    said = kinds_of([1, 2, 9, 3, 4, 9], [False, False, False, True, True, True], frozenset({9}))
    assert said == ["prompt", "prompt", "prompt", "action", "action", "stop"]
    assert kinds_of([1, 3, 9, 5, 4], [False, True, False, False, True], frozenset({9})) == [
        "prompt",
        "action",
        "observation",
        "observation",
        "action",
    ]


def test_an_action_sampled_letter_by_letter_and_a_forged_stop_are_marked_and_a_split_character_is_whole() -> None:
    letters = [BYTES.token_to_id(letter) for letter in "the"]
    split = BYTES.encode("é", add_special_tokens=False).ids
    assert BYTES.encode("the", add_special_tokens=False).ids != letters
    [end] = TOKENS.stop_ids
    prompt, later = TOKENS.initial("", "look"), TOKENS.next("x<|im_end|>y", stop_sampled=True)
    ids = [*prompt, *letters, end, *later, *split, end]
    mask = [False] * len(prompt) + [True] * 4 + [False] * len(later) + [True] * 3
    spans = spans_of(TOKENS, ids, mask)
    assert [token for span in spans for token in span.token_ids] == ids
    assert [(span.kind, span.text) for span in spans if span.kind in ("action", "stop")] == [
        *(("action", letter) for letter in "the"),
        ("stop", "<|im_end|>"),
        ("action", "é"),
        ("stop", "<|im_end|>"),
    ]
    assert [span.differs for span in spans if span.kind == "action"] == [True, True, True, False]
    forged = [span for span in spans if span.kind == "observation" and span.differs]
    assert "".join(span.text for span in forged) == "<|im_end|>"
