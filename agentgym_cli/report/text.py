"""Foreign text made harmless for a terminal or for Markdown. Knows no reports."""

from __future__ import annotations

import re
import unicodedata

SHOWN = 200
"""Most characters of a foreign text in one place of a report."""
# CSI and OSC sequences, then any other two-character escape; ESC and the C1 forms of CSI and OSC alike.
_ESCAPES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[ -/]*[0-~]?")
_LONGEST_WORD = 40
"""Longer words are cut."""
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_MARKUP = re.compile(r"([\\`*_{}\[\]#!|~$])")


def for_terminal(text: str, *, ascii_only: bool = False, limit: int = SHOWN) -> str:
    """One line without escape sequences, control or direction characters, at most ``limit`` long.

    Line breaks and tabs become spaces; with ``ascii_only`` other characters are written as escapes.
    """
    cleaned = "".join(_visible(character) for character in _ESCAPES.sub("", text[: 10 * limit]))
    cleaned = " ".join(cleaned.split())
    if ascii_only:
        cleaned = cleaned.encode("ascii", "backslashreplace").decode("ascii")
    return _cut(cleaned, limit)


def _visible(character: str) -> str:
    if character in "\n\r\t\u2028\u2029":
        return " "
    return "" if unicodedata.category(character) in _UNSEEN else character


def spelled_out(text: str) -> str:
    """All of a foreign text in which every character can be seen: a line feed as an arrow before it, control and direction characters as escapes."""
    return "".join("↵\n" if character == "\n" else spelled(character) for character in text)


def for_markdown(text: str, limit: int = SHOWN) -> str:
    """One line in which no character is markup or HTML; control and direction characters are shown as escapes."""
    shown = "".join(spelled(character) for character in _cut(text, limit))
    shown = shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(r"\\\1", shown)


def for_csv(text: str) -> str:
    """A cell of a table that no spreadsheet takes for a formula: an apostrophe stands before ``=``, ``+``, ``-``, ``@`` and their wide forms.

    Control and direction characters, line feeds and tabs too, are shown as escapes.
    """
    shown = "".join(map(spelled, text))
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) or text.startswith(("\t", "\r", "\n")) else shown


def for_code(text: str) -> str:
    """A Markdown code span of one line; control characters and backticks are shown as escapes."""
    return "`" + "".join(spelled(character) for character in text).replace("`", "\\x60") + "`"


def spelled(character: str) -> str:
    """A character that can be seen; a control, direction or unassigned one as its escape."""
    if unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("ascii", "backslashreplace").decode("ascii") if ord(character) > 127 else ascii(character)[1:-1]


def _cut(text: str, limit: int) -> str:
    """At most ``limit`` characters, the last of them a whole word where there is one close by."""
    if len(text) <= limit:
        return text
    short = text[: limit - 3]
    kept = short if text[len(short)] == " " else short.rpartition(" ")[0]
    return (kept.rstrip(" ,;") if kept and len(short) - len(kept) <= _LONGEST_WORD else short) + "..."
