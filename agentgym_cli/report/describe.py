"""The JSON form, name by name, as Markdown. ``python -m agentgym_cli.report.describe docs/report-json.md`` brings the page up to date."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin, get_type_hints

from agentgym_cli.report.compare import Comparisons
from agentgym_cli.report.gate import Decision
from agentgym_cli.report.model import SCHEMA, Report
from agentgym_cli.store.describe import class_docstrings

BLOCK = re.compile(r"(?<=<!-- json form -->\n).*?(?=<!-- end -->)", re.DOTALL)
ROOTS = (Report, Comparisons, Decision)
"""What ``report`` prints of one run, of several, and with a gate."""
_WORDS: Mapping[object, str] = {str: "text", int: "whole number", float: "number", bool: "true or false", NoneType: "null"}


def objects() -> list[type]:
    """Every object of the form, in the order in which they are met from ``ROOTS`` on."""
    found = list(ROOTS)
    for kind in found:
        inside = (inner for hint in get_type_hints(kind).values() for inner in _objects(hint))
        found += [inner for inner in dict.fromkeys(inside) if inner not in found]
    return found


def names_of(kind: type) -> dict[str, str]:
    """The type of each name of an object, in words. Raises LookupError for a type that JSON has not."""
    hints = get_type_hints(kind)
    return {field.name: _words(hints[field.name]) for field in fields(kind)}


def _words(hint: object) -> str:
    if isinstance(hint, type) and is_dataclass(hint):
        return hint.__name__
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return f"list of {_inner(parts[0])}" if parts[-1] is Ellipsis else f"list of {len(parts)} ({', '.join(map(_words, parts))})"
    if get_origin(hint) is Mapping:
        return f"object of {_inner(parts[1])} by name"
    if parts:
        return " or ".join(map(_words, parts))
    if hint not in _WORDS:
        raise LookupError(f"{hint}: expected a type that JSON has")
    return _WORDS[hint]


def _inner(hint: object) -> str:
    return f"({words})" if " or " in (words := _words(hint)) and hint is not bool else words


def _objects(hint: object) -> list[type]:
    """Dataclasses inside a type hint."""
    if isinstance(hint, type) and is_dataclass(hint):
        return [hint]
    return [inner for part in get_args(hint) for inner in _objects(part)]


def describe_json() -> str:
    """Markdown for every object of the form."""
    return "\n".join([f"The form's number (`schema`) is {SCHEMA}.\n", *map(_section, objects())])


def _section(kind: type) -> str:
    said = class_docstrings(kind)
    rows = [f"| `{name}` | {words} | {_cell(said.get(name, ''))} |" for name, words in names_of(kind).items()]
    return "\n".join([f"## {kind.__name__}\n", f"{_cell(said[''])}\n", "| name | type | meaning |", "|---|---|---|", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def current_page(page: str) -> str:
    """The text of docs/report-json.md with its block as it should be now."""
    return BLOCK.sub(lambda _: f"\n{describe_json()}\n", page)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(current_page(target.read_text(encoding="utf-8")), encoding="utf-8")
