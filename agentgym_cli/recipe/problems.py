"""What is wrong with merged values: every unknown key, wrong type and value out of range, with its place and the nearest valid name."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, Literal, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.interpolation import complaint
from agentgym_cli.recipe.layers import Layer, Place, written
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.shape import CHOSEN_KEYS, annotation_at, describe, key_paths, keys_at, kinds_of, members, sections_of
from agentgym_cli.recipe.wording import alike, asked, listed, shown
from agentgym_cli.recipe.yaml import KeyPath, YamlValue

MOST_SHOWN = 50
"""Mistakes that one error names; the rest are counted."""
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
_ABSENT = ("missing", "union_tag_not_found")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One mistake."""

    place: Place
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def raise_problems(problems: Sequence[Problem]) -> None:
    """Raise one RecipeError that shows all of them, in the order of the file; nothing when there are none."""
    every = sorted(set(problems))
    if len(every) == 1:
        raise RecipeError(str(every[0]))
    if every:
        more = [f"and {len(every) - MOST_SHOWN} more"] if len(every) > MOST_SHOWN else []
        raise RecipeError("\n  ".join([f"{len(every)} things in the recipe cannot be meant", *map(str, every[:MOST_SHOWN]), *more]))


@cache
def _adapter() -> TypeAdapter[Run]:
    return TypeAdapter(Run)


def validated(data: dict[str, YamlValue], *, profile: str, reason: str) -> Run:
    """The Run of merged values. Raises pydantic's ValidationError; ask ``find_problems`` first."""
    return _adapter().validate_json(canonical_json({**data, "profile": profile, "profile_reason": reason}))


def find_problems(data: dict[str, YamlValue], layers: Sequence[Layer], *, complete: bool, variables: Mapping[str, str]) -> Iterator[Problem]:
    """Problems of ``data``, merged from ``layers``, in which ``variables`` were interpolated. What is missing counts only in ``complete`` layers."""
    refused = dict(_refused_texts(layers, variables))
    yield from refused.values()
    for key in CHOSEN_KEYS:
        if key in data:
            layer = _layer_of((key,), layers)
            text = f"{written((*layer.prefix, key))}: expected no such key, got one; a profile is chosen with profile=NAME on the command line"
            yield Problem(place=layer.place((key,)), text=text)
    for path, kind in islice(_mistakes(data).items(), 2 * MOST_SHOWN):
        if path not in refused and (complete or kind not in _ABSENT):
            yield _problem(path, kind, data, layers)


def without_unknown(data: dict[str, YamlValue]) -> dict[str, YamlValue] | None:
    """The values less every unknown key; None when there are none, or something else is wrong too, so that no Run can be made."""
    mistakes = _mistakes(data)
    if not mistakes or len(mistakes) > MOST_SHOWN or any(kind not in _UNKNOWN for kind in mistakes.values()):
        return None
    kept: Any = copy.deepcopy(data)
    for path in mistakes:
        del _value_at(path[:-1], kept)[path[-1]]  # type: ignore[attr-defined]
    return None if _mistakes(kept) else cast("dict[str, YamlValue]", kept)


def _mistakes(data: dict[str, YamlValue]) -> dict[KeyPath, str]:
    """Kind of pydantic's first complaint at each path; a list that is too short only because of its elements is left out."""
    try:
        validated(data, profile="unchosen", reason="")
    except ValidationError as err:
        found: dict[KeyPath, str] = {}
        for error in err.errors(include_url=False, include_context=False):
            path = _data_path(error["loc"], data, absent=error["type"] in _ABSENT)
            found.setdefault((*path, "kind") if error["type"] == "union_tag_invalid" else path, error["type"])
        return {path: kind for path, kind in found.items() if kind != "too_short" or not any(_inside(path, each) for each in found)}
    return {}


def _inside(around: KeyPath, path: KeyPath) -> bool:
    return len(path) > len(around) and path[: len(around)] == around


def _refused_texts(layers: Sequence[Layer], variables: Mapping[str, str]) -> Iterator[tuple[KeyPath, Problem]]:
    for layer in layers:
        for path, text in layer.texts():
            if "${" in text or text == "???":
                why = complaint(text, variables) or f"expected a value, got {shown(text)}"
                yield path, Problem(place=layer.place(path), text=f"{written((*layer.prefix, *path))}: {why}")


def place_of(path: KeyPath, layers: Sequence[Layer]) -> Place:
    """Place of the value at ``path`` of the merged values."""
    return _layer_of(path, layers).place(path)


def _layer_of(path: KeyPath, layers: Sequence[Layer]) -> Layer:
    """The top layer that gives the value at ``path``, or the mapping around a value that no layer gives; for the root, the recipe itself."""
    for end in range(len(path), 0, -1):
        for layer in reversed(layers):
            if layer.has(path[:end]):
                return layer
    return next((layer for layer in reversed(layers) if not layer.prefix and layer.places[()].line), layers[-1])


def _data_path(loc: tuple[int | str, ...], data: Any, *, absent: bool) -> KeyPath:
    """Path in the data of a pydantic location, which also names the alternatives of unions."""
    path: list[str | int] = []
    part: Any
    for number, part in enumerate(loc):
        if (part in data) if isinstance(data, dict) else (isinstance(data, list) and isinstance(part, int)):
            data = data[part]
        elif not (absent and number == len(loc) - 1):
            continue
        path.append(part)
    return tuple(path)


def _problem(path: KeyPath, kind: str, data: dict[str, YamlValue], layers: Sequence[Layer]) -> Problem:
    given = path[:-1] if kind == "missing" else path
    layer = _layer_of(given, layers)
    name = written((*layer.prefix, *path))
    return Problem(place=layer.place(given), text=f"{name}: expected {_expected_and_got(path, kind, data)}")


def _expected_and_got(path: KeyPath, kind: str, data: dict[str, YamlValue]) -> str:
    if kind in _UNKNOWN:
        known = keys_at(path[:-1], data)
        like = alike(str(path[-1]), known)
        # The same name elsewhere is the likelier slip, unless a name here is all but the same.
        elsewhere = [written(each) for each in key_paths() if each[-1] == path[-1]]
        like = like if elsewhere == [] else " or ".join(elsewhere[:3])
        return f"one of {listed(known)}, got the unknown key {shown(path[-1])}{f'; did you mean {like}?' if like else ''}"
    if kind == "union_tag_invalid":
        words = [kind for section in sections_of(annotation_at(path[:-1], data)) for kind in kinds_of(section)]
        return f"one of {listed(words)}, got {_got(path, data, words)}"
    annotation = annotation_at(path, data)
    if kind in _ABSENT:
        return f"{describe(annotation)}, got {'nothing' if kind == 'missing' else 'no kind'}"
    words = [word for member in members(annotation) if get_origin(member) is Literal for word in get_args(member)]
    return f"{describe(annotation)}, got {_got(path, data, words)}"


def _got(path: KeyPath, data: dict[str, YamlValue], words: Sequence[str]) -> str:
    got = _value_at(path, data)
    return f"{shown(got)}{asked(got, words, before='; ')}" if isinstance(got, str) else shown(got)


def _value_at(path: KeyPath, data: Any) -> object:
    for part in path:
        data = data[part]
    return data
