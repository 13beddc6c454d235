"""Passages and questions as their owner has them in JSON Lines, read one after the other; what is none is refused by file and line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

MOST_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is refused."""
_SHOWN = 80


class DataError(ValueError):
    """A file is not what it should be; the message says where, what was expected and what is there."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What a search finds."""

    title: str
    text: str


class Search(Protocol):
    """What the world asks."""

    def find(self, query: str, count: int) -> list[Passage]:
        """The ``count`` best passages, or as many as have a word of the query. DataError where the index is damaged."""


def read_lines(path: Path, *, skip_empty: bool = True) -> Iterator[tuple[str, dict[str, object]]]:
    """Where it stands, as ``file:line``, and the object of every line; DataError, for an empty line too unless it is skipped, or OSError."""
    number = 0
    with path.open("rb") as lines:
        while line := lines.readline(MOST_LINE_BYTES + 1):
            number += 1
            where = f"{path}:{number}"
            if len(line) > MOST_LINE_BYTES:
                raise DataError(f"{where}: expected a line of at most {MOST_LINE_BYTES} bytes, got a longer one")
            if line.strip() or not skip_empty:
                yield where, _object(line, where)


def passage_of(value: dict[str, object], where: str) -> Passage:
    """From the fields title and text, or, as in the wiki-18 corpus, contents: the title on the first line, the text after it."""
    if "contents" in value and "text" not in value:
        title, _, text = string_of(value, "contents", where).partition("\n")
        return Passage(title.strip().strip('"'), text)
    return Passage(string_of(value, "title", where), string_of(value, "text", where))


def string_of(value: dict[str, object], field: str, where: str) -> str:
    """The text of a field; DataError where it is missing or no string."""
    if field not in value:
        raise DataError(f"{where}: expected a field {field}, got {shown(sorted(value))}")
    text = value[field]
    if not isinstance(text, str):
        raise DataError(f"{where}: expected {field} to be a string, got {shown(text)}")
    return text


def shown(value: object) -> str:
    """The beginning of a foreign value, without control characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _object(line: bytes, where: str) -> dict[str, object]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as err:
        raise DataError(f"{where}: expected a JSON object, got {shown(line)} ({err.msg})") from err
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected a JSON object, got {shown(value)}")
    return value
