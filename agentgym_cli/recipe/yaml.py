"""Strict YAML with the line of every key: YAML 1.2's words, one document, no tags, no anchors, no duplicate keys. Owns PyYAML.

``5e-7`` and ``1e-3`` are numbers; ``yes``, ``no``, ``on``, ``off`` and dates are strings; NaN and infinities are refused. Knows nothing of recipes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import shown

YamlValue: TypeAlias = "dict[str, YamlValue] | list[YamlValue] | str | int | float | bool | None"
KeyPath: TypeAlias = tuple[str | int, ...]

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
MOST_PROBLEMS = 50
"""Refused values that one error names; reading stops there."""
_INT64 = 1 << 63

_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile:
    """One parsed file."""

    path: Path
    data: dict[str, YamlValue]
    lines: Mapping[KeyPath, int]
    """Line, from 1, of each key (of each element, in a list) by its path from the root; ``()`` is the first line with content."""


def read_yaml(path: Path) -> YamlFile:
    """Read a file whose root is a mapping.

    Raises:
        RecipeError: the file cannot be read, is larger than 1 MiB, is not UTF-8, or is not in the subset; names file and line.
    """
    return parse_yaml(read_text(path, MAX_BYTES), path)


def read_text(path: Path, max_bytes: int) -> str:
    """Text of a UTF-8 file of at most ``max_bytes``, a byte order mark removed.

    Raises:
        RecipeError: the file cannot be read, is larger, or is not UTF-8 (with the byte's position, from 0).
    """
    try:
        if path.exists() and not path.is_file():
            raise RecipeError(f"{path}: expected a file, got {'a folder' if path.is_dir() else 'something else'}")
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
    except OSError as err:
        raise RecipeError(f"{path}: expected a readable file, got: {err.strerror}") from err
    if len(raw) > max_bytes:
        raise RecipeError(f"{path}: expected at most {max_bytes} bytes, got more")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = raw[: err.start].count(b"\n") + 1
        raise RecipeError(f"{path}:{line}: expected UTF-8, got byte 0x{raw[err.start]:02x} at position {err.start}") from err


def parse_yaml(text: str, path: Path) -> YamlFile:
    """Parse text whose root is a mapping; ``path`` is only named in errors. Raises RecipeError."""
    reader = _Reader(text, where=str(path), located=True)
    data = reader.document()
    if not isinstance(data, dict):
        got = "nothing" if data is None else shown(data)
        raise RecipeError(f"{path}:{reader.lines[()]}: expected a mapping of names to values, got {got}")
    return YamlFile(path=path, data=data, lines=reader.lines)


def dump_yaml(value: Mapping[str, object]) -> str:
    """The values as YAML that ``parse_yaml`` reads back, at most 80 columns where a word allows it, keys in their order."""
    plain = json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False))
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=78)


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """A list's dash stands two columns further in than its key."""
        super().increase_indent(flow, False)


def parse_value(text: str, *, where: str) -> YamlValue:
    """Parse one value as YAML types it (of an override, say). Raises RecipeError; text after `` #`` is refused, not dropped."""
    reader = _Reader(text, where=where, located=False)
    value = reader.document()
    rest = text[reader.end :].strip()
    if rest:
        raise RecipeError(f"{where}: expected one value, got {shown(rest)} after it", hint="put the value in quotes")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """One event of PyYAML's parser."""

    kind: str
    """``Scalar``, ``MappingStart``, ``Alias`` ..."""
    line: int
    end: int
    """Index of the first character after it."""
    text: str
    """A scalar's value, an alias's name."""
    plain: bool
    """True for a scalar without quotes that is not a block."""
    property: str | None
    """What the value carries and must not: a tag, an anchor, an alias, a directive."""


def _event(event: Any) -> _Event:
    kind = type(event).__name__.removesuffix("Event")
    anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
    found = None
    if anchor is not None:
        found = f"the {'alias *' if kind == 'Alias' else 'anchor &'}{anchor}"
    elif tag is not None:
        found = f"the tag {shown(tag)}"
    elif kind == "DocumentStart" and (event.version or event.tags):
        found = "a directive that starts with %"
    plain = kind == "Scalar" and event.style is None
    text = event.value if kind == "Scalar" else ""
    return _Event(kind=kind, line=event.start_mark.line + 1, end=event.end_mark.index, text=text, plain=plain, property=found)


class _Reader:
    """Builds values from PyYAML's events, so that tags, aliases and depth are refused before anything is made of them."""

    def __init__(self, text: str, *, where: str, located: bool) -> None:
        self.text = text
        self.where = where
        self.located = located
        self.lines: dict[KeyPath, int] = {(): 1}
        self.end = 0
        self.events: Iterator[Any] = iter(())
        self.problems: list[str] = []
        """Values that are refused, in order; reading goes on behind each, so that all are named at once."""

    def document(self) -> YamlValue:
        """The value of the only document; None when there is none."""
        try:
            self.events = iter(yaml.parse(self.text, Loader=yaml.SafeLoader))
            value = self._document()
        except yaml.reader.ReaderError as err:
            line = self.text.count("\n", 0, err.position) + 1
            self.fail(line, f"expected printable text, got character U+{ord(self.text[err.position]):04X}")
        except yaml.MarkedYAMLError as err:
            mark = err.problem_mark or err.context_mark
            self.fail(mark.line + 1 if mark else 1, f"expected YAML, got: {err.problem or err.context}")
        except RecursionError:
            self.fail(1, "expected YAML that is less deeply nested")
        if self.problems:
            self._raise()
        return value

    def refuse(self, line: int, problem: str) -> None:
        """Note a value that is refused, on a line, from 1; reading goes on."""
        self.problems.append(f"{self.where}:{line}: {problem}" if self.located else f"{self.where}: {problem}")
        if len(self.problems) == MOST_PROBLEMS:
            self._raise()

    def fail(self, line: int, problem: str) -> NoReturn:
        """Refuse a line, from 1, behind which nothing can be read. Raises RecipeError."""
        self.problems.append(f"{self.where}:{line}: {problem}" if self.located else f"{self.where}: {problem}")
        self._raise()

    def _raise(self) -> NoReturn:
        if len(self.problems) == 1:
            raise RecipeError(self.problems[0])
        raise RecipeError("\n  ".join([f"{len(self.problems)} things in {self.where} cannot be read", *self.problems]))

    def _next(self) -> _Event:
        event = _event(next(self.events))
        if event.property is not None:
            self.refuse(event.line, f"expected plain values, got {event.property}")
        return event

    def _document(self) -> YamlValue:
        self._next()
        if self._next().kind == "StreamEnd":
            return None
        first = self._next()
        self.lines[()] = first.line
        value = self._value(first, ())
        self._next()
        if (after := self._next()).kind != "StreamEnd":
            self.fail(after.line, "expected one document, got a second one")
        return value

    def _value(self, event: _Event, path: KeyPath) -> YamlValue:
        self.end = event.end
        if len(path) > MAX_DEPTH:
            self.fail(event.line, f"expected at most {MAX_DEPTH} levels, got more")
        if event.kind == "MappingStart":
            return self._mapping(path)
        if event.kind == "SequenceStart":
            return self._sequence(path)
        return self._scalar(event)

    def _mapping(self, path: KeyPath) -> dict[str, YamlValue]:
        made: dict[str, YamlValue] = {}
        while (event := self._next()).kind != "MappingEnd":
            key = self._key(event, path)
            if key in made:
                self.refuse(event.line, f"expected each key once, got {shown(key)} again (first on line {self.lines[(*path, key)]})")
            self.lines.setdefault((*path, key), event.line)
            made[key] = self._value(self._next(), (*path, key))
        self.end = event.end
        return made

    def _key(self, event: _Event, path: KeyPath) -> str:
        key = self._value(event, path)
        if not isinstance(key, str):
            self.refuse(event.line, f"expected a name as key, got {shown(key)}; a name that looks like another value needs quotes")
        if key == "<<" and event.plain:
            self.refuse(event.line, "expected plain keys, got the merge key <<")
        return str(key)

    def _sequence(self, path: KeyPath) -> list[YamlValue]:
        made: list[YamlValue] = []
        while (event := self._next()).kind != "SequenceEnd":
            inner = (*path, len(made))
            self.lines[inner] = event.line
            made.append(self._value(event, inner))
        self.end = event.end
        return made

    def _scalar(self, event: _Event) -> str | int | float | bool | None:
        text, line = event.text, event.line
        if any("\ud800" <= character <= "\udfff" for character in text):
            self.refuse(line, "expected text, got half of a surrogate pair")
        if not event.plain:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return self._integer(text, line)
        if _NOT_FINITE.fullmatch(text):
            self.refuse(line, f"expected a finite number, got {text}")
        if _FLOAT.fullmatch(text):
            if not math.isfinite(value := float(text)):
                self.refuse(line, f"expected a finite number, got {shown(text)}")
            return value
        return text

    def _integer(self, text: str, line: int) -> int:
        if len(text) > 20 or not -_INT64 <= int(text) < _INT64:
            self.refuse(line, f"expected an integer of 64 bits, got {shown(text)}")
            return 0
        return int(text)
