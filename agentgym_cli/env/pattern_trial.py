"""Whether a regular expression can be kept busy by hostile text: it is tried, since Python's engine can neither be bounded nor stopped."""

from __future__ import annotations

import re
import time

SLOW_SECONDS = 0.02
"""Processor time for one text of at most 16,384 characters; a pattern that reads each character a few times takes a small part of it."""
_SIZES = (8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096, 8192, 16384)
"""Small steps first: a pattern of exponential cost is found while one text still ends."""
_CHARACTERS = ("a", "A", "0", " ", "\n", "`", ".")
_WORD = re.compile(r"[A-Za-z]{2,}|[^\\()\[\]{}|?*+^$.\s]")
_ESCAPED = re.compile(r"\\([^A-Za-z0-9\s])")
"""A character that a pattern takes literally though it means something to patterns: ``\\{``."""
_LEAD = re.compile(r"(?:\\A|\^)?([^\\()\[\]{}|?*+^$.]+)")
_MOST_WORDS = 12
_FLAGS = re.DOTALL | re.MULTILINE


def slow_text(pattern: str) -> str | None:
    """The beginning of a text that keeps ``pattern`` busy, None when none was found. Made of the pattern's own words, so that it nearly matches."""
    compiled = re.compile(pattern, _FLAGS)
    lead = _LEAD.match(pattern)
    pieces = dict.fromkeys((*_CHARACTERS, *_ESCAPED.findall(pattern)[:_MOST_WORDS], *_WORD.findall(pattern)[:_MOST_WORDS]))
    starts = dict.fromkeys(("", lead[1] if lead is not None else ""))
    return next((start + piece * 3 for start in starts for piece in pieces if _keeps_busy(compiled, start, piece)), None)


def _keeps_busy(pattern: re.Pattern[str], start: str, piece: str) -> bool:
    for size in _SIZES:
        text = start + (piece * size)[: max(size, len(piece))] + "\x00"
        # Once more, since the machine may have been busy.
        if _seconds(pattern, text) > SLOW_SECONDS and _seconds(pattern, text) > SLOW_SECONDS:
            return True
    return False


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    began = time.process_time()
    for _ in pattern.finditer(text):
        pass
    return time.process_time() - began
