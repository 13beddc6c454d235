"""Reads a frozen run back, from a file or from a store's column, and refuses one that was edited or that another version wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.freeze import SCHEMA, Frozen
from agentgym_cli.recipe.schema.base import section
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import listed, shown
from agentgym_cli.recipe.yaml import read_text

_MAX_BYTES = 16 << 20


@section
class _Document:
    schema: int
    digest: str
    items: dict[str, str]
    config: Run
    parts: dict[str, dict[str, str]]
    recipe: str
    folders: tuple[str, ...]
    warnings: tuple[str, ...]
    observed: dict[str, str]
    categories: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Not in files that were written before this was kept."""


@cache
def _adapter() -> TypeAdapter[_Document]:
    return TypeAdapter(_Document)


def read_frozen(path: Path) -> Frozen:
    """Read what ``Frozen.write`` wrote.

    Raises:
        RecipeError: not such a file, one larger than 16 MiB, an unknown schema version, or content that its digest does not match.
    """
    return parse_frozen(read_text(path, _MAX_BYTES), where=str(path))


def parse_frozen(text: str, *, where: str) -> Frozen:
    """Read ``Frozen.to_json`` back; errors start with ``where``. Raises RecipeError as ``read_frozen`` does."""
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as err:
        raise RecipeError(f"{where}: expected a frozen run, got: {err}", hint="agentgym freeze RECIPE -o FILE writes one") from err
    _refuse_other_version(data, where)
    try:
        document = _adapter().validate_json(canonical_json(data))
    except ValidationError as err:
        hint = "the run was frozen by another version, or edited; freeze its recipe again"
        raise RecipeError(": ".join([where, *_complaint(err, data)]), hint=hint) from err
    frozen = Frozen(
        run=document.config,
        parts=document.parts,
        recipe=document.recipe,
        folders=document.folders,
        warnings=document.warnings,
        observed=document.observed,
        categories=document.categories,
    )
    _refuse_edited(document, frozen, where)
    return frozen


def _refuse_other_version(data: object, where: str) -> None:
    version = data.get("schema") if isinstance(data, dict) else None
    if type(version) is int and version == SCHEMA:
        return
    got = shown(version) if isinstance(data, dict) and "schema" in data else "none"
    newer = type(version) is int and version > SCHEMA
    hint = "a newer agentgym wrote it: pip install -U agentgym-cli" if newer else "freeze the recipe again; a run of an older version is started anew"
    raise RecipeError(f"{where}: schema: expected version {SCHEMA} of a frozen run, got {got}", hint=hint)


def _complaint(err: ValidationError, data: object) -> Iterator[str]:
    """The first of pydantic's complaints, at the key as the file has it: pydantic also names the alternatives of unions."""
    first = err.errors(include_url=False, include_context=False)[0]
    path: list[str] = []
    for number, part in enumerate(first["loc"]):
        here = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if here or (isinstance(data, Mapping) and part in data):
            data = data[part]  # type: ignore[index]
        elif not (isinstance(data, Mapping) and number == len(first["loc"]) - 1):
            continue
        path.append(str(part))
    if path:
        yield ".".join(path)
    yield f"expected another value ({first['msg']}), got {shown(first['input'])}"


def _refuse_edited(document: _Document, frozen: Frozen, where: str) -> None:
    items = frozen.items
    wrong = sorted(item for item in items.keys() | document.items.keys() if items.get(item) != document.items.get(item))
    if wrong or document.digest != frozen.digest:
        got = listed(wrong) or "digest"
        raise RecipeError(f"{where}: expected content that matches its digest, got another {got}", hint="freeze the recipe again")


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key that is there twice")
    return made


def _refuse(word: str) -> object:
    raise ValueError(f"the number {word}")
