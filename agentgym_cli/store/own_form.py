"""The exact form of a journal's line as this program writes it, as a regular expression, and the same as a DuckDB structure.

A line in this form needs no check field by field, so a database can read it by itself; ``codec.decode`` reads any other one.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import get_args, get_type_hints

from agentgym_cli.store.codec import CHOICES, kind_of_class

# What orjson escapes in text; other escapes, surrogates among them, are another form.
_TEXT = r'"(?:[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00[01][0-9a-f])*"'
# Shorter than the limits of 64 bits, so that nothing in this form can overflow.
_WHOLE, _SEED = r"-?[0-9]{1,18}", r"(?:[0-9]{1,19}|1[0-7][0-9]{18})"
_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e-?[0-9]{1,2})?"
_SCALARS: dict[object, tuple[str, str]] = {
    str: (_TEXT, "VARCHAR"),
    int: (_WHOLE, "BIGINT"),
    float: (_NUMBER, "DOUBLE"),
    bool: ("(?:true|false)", "BOOLEAN"),
}


def prefix(record: type) -> str:
    """How the lines of a kind of record begin."""
    return f'{{"kind":"{kind_of_class(record)}",'


def pattern(record: type, **known: object) -> str:
    """RE2 pattern of a whole line of a kind of record, newline included; ``known`` fields have exactly these values."""
    return (
        re.escape(prefix(record))
        + _fields(record, {name: re.escape(json.dumps(value, ensure_ascii=False)) for name, value in known.items()})
        + r"\}\n"
    )


def structure(record: type) -> object:
    """The same for json_transform: names and DuckDB types of all fields, ``kind`` left out."""
    return {name: _structure(name, hint) for name, hint in get_type_hints(record).items()}


def _fields(record: type, known: dict[str, str]) -> str:
    hints = get_type_hints(record)
    return ",".join(f'"{field.name}":{known.get(field.name) or _pattern(field.name, hints[field.name])}' for field in fields(record))


def _pattern(name: str, hint: object) -> str:
    parts = get_args(hint)
    if NoneType in parts:
        return f"(?:null|{_pattern(name, parts[0])})"
    if parts:
        return rf"\[(?:{_pattern(name, parts[0])}(?:,{_pattern(name, parts[0])})*)?\]"
    if isinstance(hint, type) and is_dataclass(hint):
        return rf"\{{{_fields(hint, {})}\}}"
    if name == "seed":
        return _SEED
    if name in CHOICES:
        return f'"(?:{"|".join(sorted(CHOICES[name]))})"'
    return _SCALARS[hint][0]


def _structure(name: str, hint: object) -> object:
    parts = get_args(hint)
    if NoneType in parts:
        return _structure(name, parts[0])
    if parts:
        return [_structure(name, parts[0])]
    if isinstance(hint, type) and is_dataclass(hint):
        return structure(hint)
    return "UBIGINT" if name == "seed" else _SCALARS[hint][1]
