"""Texts of models and worlds as HTML that shows every character and lets none of them act."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from html import escape

from agentgym_cli.report.html_text import Html, element

SHOWN = 4_000
"""Characters of one text that a page shows before it is asked for more."""
PIECE = 50_000
"""Characters of one text that are sent when more is asked for."""
_PLAIN = re.compile(r"[^\n\t\x20-\x7e]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def verbatim(text: str) -> Html:
    """All of a text for an element that keeps white space: line feeds and tabs as they are, what cannot be seen as a marked symbol or escape."""
    return Html(_PLAIN.sub(_spelled, escape(text)))


def one_line(text: str, most: int = 200) -> Html:
    """A text in one line, cut; line feeds and tabs as symbols."""
    kept = text if len(text) <= most else text[: most - 1] + "…"
    return Html(_CONTROL.sub(_spelled, escape(kept)) if kept.isascii() else "".join(_each(kept)))


def _each(text: str) -> Iterator[str]:
    for character in text:
        yield _mark(character) if unicodedata.category(character) in _UNSEEN else escape(character)


def _spelled(found: re.Match[str]) -> str:
    return _character(found[0])


@lru_cache(maxsize=4096)
def _character(character: str) -> str:
    return _mark(character) if unicodedata.category(character) in _UNSEEN else character


def _mark(character: str) -> str:
    code = ord(character)
    # Carets, since few fonts have the pictures of control characters.
    symbol = "↵" if character == "\n" else f"^{chr(code ^ 0x40)}" if code < 0x80 else f"U+{code:04X}"
    return element("span", symbol, attributes={"class": "unseen", "title": f"U+{code:04X} {unicodedata.name(character, 'control character')}"}).text
