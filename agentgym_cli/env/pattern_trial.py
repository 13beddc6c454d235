"""Whether a regular expression can be kept busy by hostile text: it is tried, since Python's engine can neither be bounded nor stopped."""

from __future__ import annotations

import re
import time

SLOW_SECONDS = 0.02
"""Processor time for one text of at most 2,048 characters; a pattern that reads each character a few times takes a hundredth of it."""
_SIZES = (8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
"""Small steps first: a pattern of exponential cost is found while one text still ends."""
_CHARACTERS = ("a", "A", "0", " ", "\n", "`", ".")
_WORD = re.compile(r"[A-Za-z]{2,}|[^\\()\[\]{}|?*+^$.\s]")
_MOST_WORDS = 12
_FLAGS = re.DOTALL | re.MULTILINE


def slow_text(pattern: str) -> str | None:
    """The beginning of a text that keeps ``pattern`` busy, None when none was found; in the pattern's own characters, so that it nearly matches."""
    compiled = re.compile(pattern, _FLAGS)
    pieces = dict.fromkeys((*_CHARACTERS, *_WORD.findall(pattern)[:_MOST_WORDS]))
    return next((piece * 3 for piece in pieces if _keeps_busy(compiled, piece)), None)


def _keeps_busy(pattern: re.Pattern[str], piece: str) -> bool:
    for size in _SIZES:
        text = (piece * size)[: max(size, len(piece))] + "\x00"
        began = time.process_time()
        for _ in pattern.finditer(text):
            pass
        if time.process_time() - began > SLOW_SECONDS:
            return True
    return False
