"""JSON Pointers (RFC 6901): how a dialect names a value inside a reply. Reads only; never guesses."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

PATTERN = r"^(/([^~/]|~[01])*)*$"
"""What a pointer looks like: '' is the whole document, ``/0`` the first element of a list, ``~1`` a slash in a key."""


class PointerMiss(LookupError):
    """The document has nothing at that place."""


@lru_cache(maxsize=1024)
def _tokens(pointer: str) -> tuple[str, ...]:
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def resolve(document: Json, pointer: str) -> Json:
    """The value at ``pointer``.

    Raises:
        PointerMiss: there is none; ``-``, leading zeros and negative numbers never name a list element.
    """
    value = document
    for token in _tokens(pointer):
        value = _child(value, token)
    return value


def _child(value: Json, token: str) -> Json:
    if isinstance(value, dict) and token in value:
        return value[token]
    if isinstance(value, list) and token.isascii() and token.isdigit() and (token == "0" or token[0] != "0") and int(token) < len(value):
        return value[int(token)]
    raise PointerMiss(token)
