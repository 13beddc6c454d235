"""The shape of a recipe as the schema declares it: which keys are where, what each expects in words, which sections have kinds."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic.fields import FieldInfo

from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import listed
from agentgym_cli.recipe.yaml import KeyPath

CHOSEN_KEYS = ("profile", "profile_reason")
"""Fields of a Run that resolving fills in, and that no recipe may write."""
RECIPE_KEYS = ("extends", "profiles")
"""Keys of a recipe that no Run has."""
_WORDS = {int: "an integer", float: "a number", str: "text", bool: "true or false", types.NoneType: "null"}
_BOUNDS = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))


@cache
def fields_of(section: type) -> dict[str, Any]:
    """Annotation of each field of a section, in the order of the schema."""
    hints = get_type_hints(section, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(section)}


def members(annotation: Any) -> tuple[Any, ...]:
    """Alternatives of an annotation, Annotated taken off unless it bounds a value; an annotation without alternatives is its own."""
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if get_origin(bare) in (Union, types.UnionType):
        return tuple(inner for member in get_args(bare) for inner in members(member))
    return (annotation,)


def sections_of(annotation: Any) -> tuple[type, ...]:
    """Sections that a field can hold: none for a value, several where a ``kind`` decides."""
    return tuple(member for member in members(annotation) if dataclasses.is_dataclass(member) and isinstance(member, type))


def kinds_of(section: type) -> tuple[str, ...]:
    """Values of a section's ``kind``; empty when it has none."""
    kind = fields_of(section).get("kind")
    return get_args(kind) if get_origin(kind) is Literal else ()


def describe(annotation: Any) -> str:
    """What a field expects, in words that follow ``expected``."""
    every = members(annotation)
    sections = sections_of(annotation)
    null = ["null"] if types.NoneType in every else []
    if len(sections) > 1:
        kinds = [kind for section in sections for kind in kinds_of(section)]
        return " or ".join([*null, f"a mapping whose kind is one of {listed(kinds)}"])
    return " or ".join([*null, *(_describe_one(member) for member in every if member is not types.NoneType)])


def _describe_one(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bounded(arguments[0], arguments[1:])
    if origin is Literal:
        return f"one of {listed(str(value) for value in arguments)}" if len(arguments) > 1 else str(arguments[0])
    if origin is tuple:
        return f"a list, each {describe(arguments[0])}"
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return f"a mapping of {listed(fields_of(annotation))}"
    return _WORDS[annotation]


def _bounded(annotation: Any, infos: tuple[object, ...]) -> str:
    parts = [part for info in infos if isinstance(info, FieldInfo) for part in info.metadata]
    signs = [f"{sign} {getattr(part, name)}" for part in parts for name, sign in _BOUNDS if getattr(part, name, None) is not None]
    pattern = [f"that matches {part.pattern}" for part in parts if getattr(part, "pattern", None)]
    least = next((part.min_length for part in parts if getattr(part, "min_length", None)), 0)
    if get_origin(annotation) is tuple:
        return describe(annotation).replace("a list", f"a list of at least {least}", 1) if least else describe(annotation)
    filled = ["that is not empty"] if least and not pattern else []
    short = [f"of at most {part.max_length} characters" for part in parts if getattr(part, "max_length", None)]
    return " ".join([describe(annotation), " and ".join([*signs, *pattern, *filled, *short])]).rstrip()


def annotation_at(path: KeyPath, data: object) -> Any:
    """Annotation of the field at ``path`` of a recipe whose merged values are ``data``; None where the schema has no such field."""
    annotation: Any = Run
    for part in path:
        annotation = _inside(annotation, part, data)
        data = _child(data, part)
        if annotation is None:
            return None
    return annotation


def keys_at(path: KeyPath, data: object) -> tuple[str, ...]:
    """Keys that the mapping at ``path`` may have; at the root, what a recipe may say."""
    if not path:
        return tuple(key for key in (*fields_of(Run), *RECIPE_KEYS) if key not in CHOSEN_KEYS)
    section = _section(annotation_at(path, data), _at(path, data))
    return () if section is None else tuple(fields_of(section))


@cache
def key_paths() -> tuple[tuple[str, ...], ...]:
    """Path of every key of every section that is not in a list, each once, in the order of the schema."""
    return tuple(dict.fromkeys(path for path in _key_paths(Run, ()) if path[0] not in CHOSEN_KEYS))


def _key_paths(section: type, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, annotation in fields_of(section).items():
        yield (*path, name)
        for each in sections_of(annotation):
            yield from _key_paths(each, (*path, name))


@cache
def kind_paths() -> frozenset[tuple[str, ...]]:
    """Paths of the sections where ``kind`` chooses between several: another kind replaces such a section as a whole."""
    return frozenset(_kind_paths(Run, ()))


def _kind_paths(section: type, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, annotation in fields_of(section).items():
        inner = sections_of(annotation)
        if len(inner) > 1:
            yield (*path, name)
        for each in inner:
            yield from _kind_paths(each, (*path, name))


def _inside(annotation: Any, part: str | int, data: object) -> Any:
    if isinstance(part, int):
        bare = (get_args(member)[0] if get_origin(member) is Annotated else member for member in members(annotation))
        return next((get_args(member)[0] for member in bare if get_origin(member) is tuple), None)
    section = _section(annotation, data)
    return None if section is None else fields_of(section).get(part)


def _section(annotation: Any, data: object) -> type | None:
    found = sections_of(annotation)
    if len(found) > 1:
        kind = _child(data, "kind")
        found = tuple(section for section in found if kind in kinds_of(section))
    return found[0] if found else None


def _child(data: object, part: str | int) -> object:
    if isinstance(part, int):
        return data[part] if isinstance(data, list) and part < len(data) else None
    return data.get(part) if isinstance(data, dict) else None


def _at(path: KeyPath, data: object) -> object:
    for part in path:
        data = _child(data, part)
    return data
