"""What a rule says of a run: whether it fired, and on what evidence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rule's word."""

    fired: bool | None
    """None where there is nothing to judge."""
    said: str
    """Numbers, in a sentence or two."""


def nothing(why: str) -> Verdict:
    """No data."""
    return Verdict(fired=None, said=why)


FOUND, QUIET, NO_DATA = "found", "quiet", "no data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one rule of a diagnosis says of a run."""

    rule: str
    state: str
    """``found``, ``quiet`` or ``no data``."""
    said: str
    """The evidence, or why there is none; may name an episode, foreign text."""
    threshold: str
    advice: str
    rows: str
    """SQL behind the numbers."""
