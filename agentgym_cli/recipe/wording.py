"""How errors spell what they got and which valid name is nearest. Owns rapidfuzz."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import process
from rapidfuzz.distance import JaroWinkler

_SHOWN = 80
_LONGEST = 200
_LISTED = 24
_ALIKE = 0.75
"""Least Jaro-Winkler similarity of a name that is worth asking about; 1 is the same name."""


def shown(value: object) -> str:
    """A value as an error shows it: at most 80 characters, control characters escaped, JSON's words for null and booleans."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return f"a mapping of {listed(value)}" if value else "an empty mapping"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def listed(names: Iterable[str]) -> str:
    """Names joined by commas, at most 24 of them."""
    every = list(names)
    rest = f" and {len(every) - _LISTED} more" if len(every) > _LISTED else ""
    return ", ".join(name[:_SHOWN] for name in every[:_LISTED]) + rest


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name`` (Jaro-Winkler, ties by alphabet); None when nothing is known."""
    return _found(name, known, least=0.0)


def alike(name: str, known: Iterable[str]) -> str | None:
    """The same, where it is alike enough to be worth asking about; else None."""
    return _found(name, known, least=_ALIKE)


def asked(name: str, known: Iterable[str], *, before: str = "") -> str:
    """``did you mean NAME?`` behind ``before``, where a known name is alike enough; else ''."""
    like = alike(name, known)
    return f"{before}did you mean {like}?" if like else ""


def _found(name: str, known: Iterable[str], *, least: float) -> str | None:
    scorer = JaroWinkler.normalized_similarity
    found = process.extractOne(name[:_LONGEST], sorted(set(known)), scorer=scorer, processor=str.lower, score_cutoff=least)
    return None if found is None else str(found[0])
