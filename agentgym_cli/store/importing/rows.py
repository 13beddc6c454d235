"""Rows of a JSON list in a foreign file, one by one, with the line where each begins. The file is hostile: read, bounded, never evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import shown

LARGEST = 2 * 1024**3
"""Most bytes of one file."""
_LARGEST_NUMBER = 1e300
_SPACE = re.compile(r"[ \t\r\n]*")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_HINT = "docs/store.md says what each format looks like"


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a list."""

    path: Path
    text: str
    """Of the whole file."""
    at: int
    """Where the row begins in it."""
    value: Mapping[str, object]

    def wrong(self, expected: str, got: object) -> RecipeError:
        """The refusal of this row."""
        return _refused(self.path, self.text, self.at, f"expected {expected}, got {shown(got)}")

    def only(self, *names: str) -> None:
        """Raises RecipeError unless the row has exactly these fields."""
        unknown, missing = sorted(set(self.value) - set(names)), sorted(set(names) - set(self.value))
        if unknown:
            raise self.wrong(f"the fields {', '.join(names)}", f"the unknown {unknown[0]}")
        if missing:
            raise self.wrong(f"a field {missing[0]}", "none")

    def number(self, name: str) -> float:
        """A finite number that a mean can be taken of."""
        value = self.value[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST_NUMBER:
            raise self.wrong(f"{name} to be a number below {_LARGEST_NUMBER:g}", value)
        return float(value)

    def messages(self, role: str, text: str, optional: Sequence[str] = ()) -> list[Mapping[str, object]]:
        """The conversation: objects with a text under ``role`` and under ``text``, and nothing else but what is optional."""
        value = self.value["conversations"]
        if not isinstance(value, list) or not value:
            raise self.wrong("conversations to be a list of messages", value)
        for message in value:
            if not isinstance(message, dict) or set(message) - {role, text, *optional}:
                raise self.wrong(f"messages of {role} and {text}", message)
            if not isinstance(message.get(role), str) or not isinstance(message.get(text), str):
                raise self.wrong(f"messages whose {role} and {text} are text", message)
        return value


def read_rows(path: Path) -> Iterator[Row]:
    """The objects of a file that holds one JSON list. Raises RecipeError, naming file:line, for anything else."""
    text = _text(path)
    decoder = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_distinct)
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise _refused(path, text, at, f"expected a JSON list, got {shown(text[at : at + 40])}")
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        value, end = _value(decoder, path, text, at)
        if not isinstance(value, dict):
            raise _refused(path, text, at, f"expected an object, got {shown(value)}")
        yield Row(path, text, at, value)
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
            if text[at : at + 1] == "]":
                raise _refused(path, text, at, "expected another row after the comma, got ]")
        elif text[at : at + 1] != "]":
            raise _refused(path, text, at, f"expected , or ] after a row, got {shown(text[at : at + 40])}")
    if _skip(text, at + 1) != len(text):
        raise _refused(path, text, at, "expected nothing behind the list")


def _value(decoder: json.JSONDecoder, path: Path, text: str, at: int) -> tuple[object, int]:
    try:
        return decoder.raw_decode(text, at)
    except json.JSONDecodeError as err:
        raise _refused(path, text, err.pos, f"expected JSON, got {shown(text[err.pos : err.pos + 40])} ({err.msg})") from err
    except (RecursionError, ValueError) as err:
        raise _refused(
            path,
            text,
            at,
            f"expected JSON of finite numbers, whole texts, few levels and each key once, got {shown(text[at : at + 40])} ({_why(err)})",
        ) from err


def _why(err: RecursionError | ValueError) -> str:
    return "too many levels" if isinstance(err, RecursionError) else str(err)[:80]


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose keys are given once and whose texts can be written as UTF-8."""
    for key, value in pairs:
        for text in (key, value):
            if isinstance(text, str) and _LONE_SURROGATE.search(text):
                raise ValueError("a lone surrogate")
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise RecipeError(f"{path}: expected at most {LARGEST} bytes, got {size}", "split the file")
        return path.read_text(encoding="utf-8-sig")
    except OSError as err:
        raise RecipeError(f"{path}: cannot read it: {err.strerror or err}", "name a file or folder that is there") from err
    except UnicodeDecodeError as err:
        raise RecipeError(f"{path}: expected UTF-8, got byte {err.object[err.start]:#x} at {err.start}", _HINT) from err


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _refused(path: Path, text: str, at: int, what: str) -> RecipeError:
    line = text.count("\n", 0, at) + 1
    return RecipeError(f"{path}:{line}: {what}", _HINT)
