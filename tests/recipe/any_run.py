"""Any run that the schema accepts, and any other value for one key of it: strategies made from the schema itself."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.shape import fields_of, members, sections_of

ADAPTER = TypeAdapter(Run)
LETTERS = st.characters(categories=["Lu", "Ll", "Nd", "Po", "Sm"])
FINITE = {"allow_nan": False, "allow_infinity": False}
Key = tuple[str | int, ...]


def run_of(data: Any) -> Run:
    """The run of plain values. Raises pydantic's ValidationError."""
    return ADAPTER.validate_json(canonical_json(data))


def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Plain values that a field takes."""
    return st.one_of([_of_one(member) for member in members(annotation)])


def _of_one(annotation: Any) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is NoneType:
        return st.none()
    if origin is Annotated:
        return _bounded(arguments[0], [part for info in arguments[1:] if isinstance(info, FieldInfo) for part in info.metadata])
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2)
    if dataclasses.is_dataclass(annotation):
        assert isinstance(annotation, type)
        return st.fixed_dictionaries({name: values(inner) for name, inner in fields_of(annotation).items()})
    plain: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-1000, 1000),
        float: st.floats(**FINITE),  # type: ignore[arg-type]
        str: st.text(LETTERS, max_size=6),
    }
    return plain[annotation]


def _bounded(annotation: Any, parts: list[Any]) -> st.SearchStrategy[Any]:
    said: dict[str, Any] = {
        name: value
        for part in parts
        for name in ("gt", "ge", "lt", "le", "min_length", "max_length", "pattern")
        if (value := getattr(part, name, None)) is not None
    }
    least, most = said.get("ge", said.get("gt")), said.get("le", said.get("lt"))
    if annotation is int:
        return st.integers(least + ("gt" in said), 1000 if most is None else most - ("lt" in said))
    if annotation is float:
        low = -1e9 if least is None else math.nextafter(least, math.inf) if "gt" in said else least
        high = 1e9 if most is None else math.nextafter(most, -math.inf) if "lt" in said else most
        return st.floats(low, high, **FINITE)  # type: ignore[arg-type]
    if get_origin(annotation) is tuple:
        return st.lists(values(get_args(annotation)[0]), min_size=said.get("min_length", 0), max_size=2)
    assert annotation is str
    if "pattern" in said:
        texts = st.from_regex(said["pattern"], fullmatch=True, alphabet=st.characters(codec="ascii"))
        return texts.filter(lambda text: "\n" not in text and len(text) <= said.get("max_length", 99))
    return st.text(LETTERS, min_size=said.get("min_length", 0), max_size=6)


def any_run() -> st.SearchStrategy[Any]:
    """Plain values of any run."""
    return values(Run)


def changes(data: Any, annotation: Any = Run, at: Key = ()) -> Iterator[tuple[Key, st.SearchStrategy[Any]]]:
    """Every key of a run, each with other values for it: a value, a list, or a whole section where it can be of another kind or absent."""
    sections = [section for section in sections_of(annotation) if isinstance(data, dict) and _is_of(data, section)]
    if not sections:
        others = values(annotation).filter(lambda other: canonical_json(other) != canonical_json(data) and other != data)
        if annotation not in (Literal[data] if isinstance(data, str) else None,):
            yield at, others
        return
    if others := [member for member in members(annotation) if member is not sections[0]]:
        yield at, st.one_of([_of_one(member) for member in others])
    for name, inner in fields_of(sections[0]).items():
        yield from changes(data[name], inner, (*at, name))
        element = next((get_args(_bare(m))[0] for m in members(inner) if get_origin(_bare(m)) is tuple), None)
        if element is not None and sections_of(element):
            for number, each in enumerate(data[name] or ()):
                yield from changes(each, element, (*at, name, number))


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_of(data: dict[str, Any], section: type) -> bool:
    kind = fields_of(section).get("kind")
    return data.keys() == fields_of(section).keys() and (kind is None or get_origin(kind) is not Literal or data["kind"] in get_args(kind))


def replaced(data: Any, at: Key, value: Any) -> Any:
    """``data`` with another value at one key."""
    if not at:
        return value
    if isinstance(data, list):
        return [replaced(inner, at[1:], value) if number == at[0] else inner for number, inner in enumerate(data)]
    return {key: replaced(inner, at[1:], value) if key == at[0] else inner for key, inner in data.items()}
