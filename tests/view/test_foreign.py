"""Foreign text is shown whole, every character visible, and none of it acts."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.view.foreign import one_line, verbatim
from tests.view.conftest import Reader
from tests.view.stories import HOSTILE, LONG

TAG = re.compile(r"<[^>]*>")
EPISODE = "run=h+%3Cb%3E&episode=eval/test/0/textcraft_0/0"


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_promise_11_only_our_own_marks_are_elements(text: str) -> None:
    shown = verbatim(text).text
    assert set(re.findall(r"<(/?\w+)", shown)) <= {"span", "/span"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", shown)


@settings(max_examples=40, deadline=None)
@given(st.text(st.sampled_from("ab<>&'\" \n\té日"), max_size=100))
def test_what_can_be_seen_is_shown_as_it_is(text: str) -> None:
    assert unescape(verbatim(text).text) == text


def test_control_characters_are_carets_and_direction_marks_their_numbers() -> None:
    assert TAG.sub("", verbatim("\x1b[31m\x00\x7f\u202e\n").text) == "^[[31m^@^?U+202E\n"
    assert TAG.sub("", one_line("a\nb\tc").text) == "a↵b^Ic"


@pytest.mark.slow
def test_promise_11_no_page_lets_foreign_text_act(read: Reader) -> None:
    for path, query in (("", ""), ("run", "run=h+%3Cb%3E"), ("episodes", "run=h+%3Cb%3E"), ("episode", EPISODE), ("export.html", EPISODE)):
        page = read(path, query)
        assert page.status == 200
        assert "<img" not in page.text and "<script>" not in page.text and "<b>" not in page.text and "<i>" not in page.text
        assert "\x1b" not in page.text and "\u202e" not in page.text and "\x00" not in page.text
        assert page.text.count("</main>") == 1
    assert "&lt;img" in page.text


def test_promise_11_what_is_searched_for_is_shown_as_text(read: Reader) -> None:
    page = read("episodes", 'run=a&text="><script>alert(1)</script>')
    assert "<script>alert" not in page.text
    assert 'value="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"' in page.text


def test_a_long_text_comes_piece_by_piece_and_whole(read: Reader) -> None:
    page = read("episode", EPISODE).text
    assert LONG[:4000] in page and LONG[:4001] not in page
    found, pieces, address = LONG[:4000], 0, re.search(r'href="/secret-token/text\?([^"]*part=observation[^"]*)"', page)
    while address is not None:
        piece = read("text", unescape(address[1])).text
        found += TAG.sub("", re.sub(r'<span class="more">.*?</span>', "", piece))
        address, pieces = re.search(r'href="/secret-token/text\?([^"]*)"', piece), pieces + 1
    assert (found == LONG, pieces) == (True, 3)


def test_a_name_that_is_hostile_is_no_file_name(read: Reader) -> None:
    assert read("export.html", EPISODE).headers["content-disposition"] == 'attachment; filename="eval-test-0-textcraft_0-0.html"'
    assert HOSTILE not in read("export.html", EPISODE).text
