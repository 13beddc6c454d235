"""Foreign text can say anything and do nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.report.text import for_markdown, for_terminal

CONTROLS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@settings(deadline=None)
@given(st.text())
def test_promise_11_nothing_that_controls_a_terminal_is_left(text: str) -> None:
    assert not {unicodedata.category(character) for character in for_terminal(text)} & CONTROLS
    assert for_terminal(text, ascii_only=True).isascii()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;http://x\x1b\\b", "ab"),
        ("a\x9b2Jb", "ab"),
        ("a\x1b(0b", "ab"),
        ("a\x1bcb", "ab"),
        ("a\rb\nc\td", "a b c d"),
        ("\u202egnp.exe", "gnp.exe"),
        ("a\x00b\x7fc\u200bd", "abcd"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
        ("größe", "größe"),
    ],
)
def test_promise_11_escape_sequences_vanish_whole(text: str, shown: str) -> None:
    assert for_terminal(text) == shown


def test_ascii_terminals_get_escapes_for_other_letters() -> None:
    assert for_terminal("größe", ascii_only=True) == "gr\\xf6\\xdfe"


def test_promise_11_text_is_bounded() -> None:
    assert for_terminal("x" * 1_000_000) == "x" * 197 + "..."
    assert for_markdown("x" * 1_000_000, 10) == "xxxxxxx..."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("a | b", "a \\| b"),
        ("[x](http://y)", "\\[x\\](http://y)"),
        ("`code` *bold* _it_", "\\`code\\` \\*bold\\* \\_it\\_"),
        ("# title\nnext", "\\# title\\\\nnext"),
        ("\x1b[31m", "\\\\x1b\\[31m"),
        ("a\u202eb", "a\\\\u202eb"),
        ("&amp;", "&amp;amp;"),
        ("depth 1", "depth 1"),
    ],
)
def test_promise_11_markdown_shows_markup_and_controls_as_text(text: str, shown: str) -> None:
    assert for_markdown(text) == shown


@settings(deadline=None)
@given(st.text())
def test_promise_11_markdown_stays_on_one_line(text: str) -> None:
    shown = for_markdown(text)
    assert len(shown.splitlines()) <= 1
    assert "<" not in shown
    assert not {unicodedata.category(character) for character in shown} & CONTROLS


def test_what_is_cut_is_cut_between_words() -> None:
    assert for_terminal("repeated actions, slow world, stalls", limit=28) == "repeated actions, slow..."
    assert for_terminal("repeated actions, slow world", limit=21) == "repeated actions..."
    assert for_terminal("a " + "x" * 60, limit=50) == "a " + "x" * 45 + "..."
