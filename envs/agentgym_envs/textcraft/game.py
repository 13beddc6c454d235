"""A book from a folder of recipe files in the game's own JSON format, by upstream's rules, with files read in sorted order.

Shaped and shapeless crafting counts, other types are skipped. An ingredient with alternatives means the first. A tag is satisfied by made items
whose recipe has the tag as its group; a tag without any becomes an item that is found. Recipes from one ``_block``, and recipes that would close
a cycle over those read before, are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as _shown

import orjson

from agentgym_envs.textcraft.book import MOST_HELD, Book, BookError, Ingredient, Recipe

NAMESPACE = "minecraft:"
_MOST_FILES = 20_000
_MOST_BYTES = 1_000_000
_MOST_SHOWN = 200
_MOST_INPUTS = 32
_MOST_NAME_CHARACTERS = 100
"""So that a craft of the most inputs with the longest names is an action that is executed."""
_TYPES = ("crafting_shaped", "crafting_shapeless")


def game_book(folder: Path) -> Book:
    """Read every ``*.json`` of ``folder`` (or of its ``recipes`` folder).

    Raises:
        BookError: naming the file that cannot be read, or because nothing can be made.
        OSError: a file that is there cannot be opened.
    """
    if not folder.is_dir():
        raise BookError(f"{folder}: expected a folder of recipe files (*.json), got {'a file' if folder.exists() else 'none: it is not there'}")
    files = sorted((folder / "recipes" if (folder / "recipes").is_dir() else folder).glob("*.json"), key=lambda path: path.name)
    if not 0 < len(files) <= _MOST_FILES:
        raise BookError(f"{folder}: expected 1 to {_MOST_FILES} recipe files (*.json), got {len(files)}")
    reader = _Reader()
    for path in files:
        if (raw := _read(path)) is not None:
            reader.add(raw)
    if not reader.recipes:
        raise BookError(f"{folder}: expected a recipe that makes something from something, got none in {len(files)} files ({', '.join(_TYPES)})")
    return reader.book(folder.name)


@dataclass(frozen=True, slots=True)
class _Raw:
    """One file's recipe. Names are words; ``tags`` says which inputs are tags."""

    output: str
    count: int
    inputs: tuple[tuple[str, int], ...]
    """Names and counts; of a shaped recipe one for each letter of its key, so that a name may stand there twice."""
    tags: frozenset[str]
    group: str | None


@dataclass(slots=True)
class _Reader:
    recipes: list[_Raw] = field(default_factory=list)
    known: dict[str, None] = field(default_factory=dict)
    """Items, in the order of reading."""
    group_of: dict[str, str] = field(default_factory=dict)
    below: dict[str, set[str]] = field(default_factory=dict)
    """By made item, everything that its recipes need."""

    def add(self, raw: _Raw) -> None:
        """Take one file's recipe, unless it is from one block or closes a cycle."""
        names = [name for name, _ in raw.inputs]
        self.known |= dict.fromkeys([*(name for name in names if name not in raw.tags), raw.output])
        if len(names) == 1 and names[0].endswith(" block"):
            return
        if raw.group is not None and raw.group != raw.output:
            self.group_of[raw.output] = raw.group
        below = self.below.setdefault(raw.output, set())
        if any(raw.output in self.below.get(name, ()) for name in names):
            return
        self.recipes.append(raw)
        for name in names:
            below |= {name, *self.below.get(name, ())}

    def book(self, name: str) -> Book:
        """The book of what was read."""
        recipes = [Recipe(raw.output, raw.count, tuple(Ingredient(part, count) for part, count in raw.inputs)) for raw in self.recipes]
        made = {raw.output for raw in self.recipes}
        wanted = {tag for raw in self.recipes for tag in raw.tags}
        members: dict[str, list[str]] = {}
        for item, group in self.group_of.items():
            if item in made and group in wanted:
                members.setdefault(group, []).append(item)
        alike = {tag: tuple(recipe for recipe, raw in zip(recipes, self.recipes, strict=True) if raw.group == tag) for tag in members}
        return Book(
            name=name,
            recipes=tuple(recipes),
            tags={tag: tuple(items) for tag, items in members.items()},
            tag_recipes={tag: tagged for tag, tagged in alike.items() if tagged},
            found_members={tag: tuple(item for item, group in self.group_of.items() if group == tag and item not in made) for tag in members},
            others=tuple(self.known),
            namespace=NAMESPACE,
        )


def _read(path: Path) -> _Raw | None:
    """The file's recipe; None when it is of another type."""
    if path.stat().st_size > _MOST_BYTES:
        raise BookError(f"{path.name}: expected at most {_MOST_BYTES} bytes")
    try:
        raw = orjson.loads(path.read_bytes())
        if raw["type"].removeprefix(NAMESPACE) not in _TYPES:
            return None
        parts = list(_inputs(raw))
        output, count = _result(raw["result"])
        group = _words(raw["group"]) if raw.get("group") else None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as err:
        raise BookError(f"{path.name}: expected a recipe in the game's format, got {type(err).__name__}: {str(err)[:_MOST_SHOWN]}") from err
    if not 0 < len(parts) <= _MOST_INPUTS:
        raise BookError(f"{path.name}: expected 1 to {_MOST_INPUTS} inputs, got {len(parts)}")
    for needed in (count, *(needed for _, needed in parts)):
        if not 1 <= needed <= MOST_HELD:
            raise BookError(f"{path.name}: expected counts of 1 to {MOST_HELD}, got {str(needed)[:_MOST_SHOWN]}")
    inputs = tuple((name, needed) for (name, _), needed in parts)
    return _Raw(output, count, inputs, frozenset(name for (name, is_tag), _ in parts if is_tag), group)


def _inputs(raw: Mapping[str, object]) -> Iterator[tuple[tuple[str, bool], int]]:
    """(name, is a tag) and count of each input."""
    match raw:
        case {"pattern": list(pattern), "key": dict(key)}:
            for letter, part in key.items():
                yield _ingredient(part), sum(line.count(letter) for line in pattern)
        case {"ingredients": list(ingredients)}:
            yield from Counter(map(_ingredient, ingredients)).items()
        case _:
            raise ValueError("neither 'pattern' and 'key' nor 'ingredients'")


def _ingredient(part: object) -> tuple[str, bool]:
    match part:
        case [first, *_] if not isinstance(first, list):
            return _ingredient(first)
        case {"item": str(name)}:
            return _words(name), False
        case {"tag": str(name)}:
            return _words(name), True
        case str(name):
            return _words(name.removeprefix("#")), name.startswith("#")
    raise ValueError(f"ingredient {_shown(part)}")


def _result(result: object) -> tuple[str, int]:
    match result:
        case str(name):
            return _words(name), 1
        case {"item": str(name), "count": int(count)} | {"id": str(name), "count": int(count)} if not isinstance(count, bool):
            return _words(name), count
        case {"count": _}:
            pass
        case {"item": str(name)} | {"id": str(name)}:
            return _words(name), 1
    raise ValueError(f"result {_shown(result)}")


def _words(identifier: str) -> str:
    """An item's words; ValueError for what could not stand in an action."""
    words = identifier.removeprefix(NAMESPACE).replace("_", " ")
    if not 0 < len(words) <= _MOST_NAME_CHARACTERS or words != words.strip() or not words.isprintable() or "," in words or " using " in words:
        raise ValueError(f"a name that cannot stand in an action, {identifier[:_MOST_NAME_CHARACTERS]!r}")
    return words
