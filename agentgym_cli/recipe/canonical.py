"""One spelling for equal content: canonical JSON, its SHA-256, and the leaves by which two contents differ."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no spaces, nulls kept and floats as their shortest exact decimals. ValueError for NaN and infinities."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def printed_json(value: object, *, indent: int) -> str:
    """JSON for a screen or a file of results: sorted keys, no data null, every control, direction and unassigned character an escape.

    ValueError for NaN and infinities.
    """
    return _UNPLAIN.sub(_escaped, json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent))


_UNPLAIN = re.compile(r"[^\n\x20-\x7e]")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Of Unicode: what a terminal may obey, or nobody sees."""


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return json.dumps(character)[1:-1] if unicodedata.category(character) in _UNSEEN else character


def digest_of(value: object) -> str:
    """SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Each leaf as (``a.b.0``, canonical JSON); empty mappings and lists are leaves."""
    if isinstance(value, Mapping) and value:
        for key in sorted(value):
            yield from leaves(value[key], f"{path}.{key}" if path else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}.{number}" if path else str(number))
    else:
        yield path, canonical_json(value)
