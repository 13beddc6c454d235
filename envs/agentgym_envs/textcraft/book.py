"""A recipe book: items, recipes, tags, and the goals with their depths. Knows no task, no session and no HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LINE = re.compile(r"craft ([1-9][0-9]*) (.+) using (.+)")
_PART = re.compile(r"([1-9][0-9]*) (.+)")
_BOOKS = Path(__file__).parent / "books"
MOST_HELD = 1_000_000
"""Most of one item that a session may get, and that a recipe may ask for or make."""


class BookError(ValueError):
    """A book contradicts itself or cannot be read."""


@dataclass(frozen=True, slots=True)
class Ingredient:
    """So many of one item, or of any one member of a tag."""

    name: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} {self.name}"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make ``count`` of ``output`` in one craft."""

    output: str
    count: int
    inputs: tuple[Ingredient, ...]
    text: str = field(init=False, compare=False, repr=False)
    """As a listing shows it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"craft {self.count} {self.output} using {', '.join(map(str, self.inputs))}")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRule:
    """How many recipes beside the needed ones a task lists."""

    fewest: int = 0
    most: int = 10
    """Distractors; their number is drawn between ``fewest`` and ``most``."""
    most_lines: int | None = None
    """Lines in all; needed recipes are always listed. None is no limit."""
    related_only: bool = True
    """Draw only from recipes that use an ingredient of a needed recipe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A recipe book whose goals are all its craftable items, sorted by depth and then by the order of the recipes."""

    name: str
    recipes: tuple[Recipe, ...]
    tags: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...] = ()
    """Items that no recipe uses or makes; they are found."""
    variants: int = 1
    """Listings per goal: task ``variant * len(goals) + rank`` asks for goal ``rank``."""
    rule: ListingRule = ListingRule()
    tag_recipes: Mapping[str, tuple[Recipe, ...]] = field(default_factory=dict)
    """By tag, the recipes whose depth is the tag's; where a tag has none here, all recipes of its members are."""
    found_members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By tag, items that satisfy it beside its members although nothing makes them; they have no part in its depth."""
    namespace: str = ""
    """Put before an item's identifier in replies, e.g. ``minecraft:``; '' replies with the item's words."""
    by_output: Mapping[str, tuple[Recipe, ...]] = field(init=False)
    depths: Mapping[str, int] = field(init=False)
    """Crafts in a row that an item needs at least; 0 for items that are found."""
    goals: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        by_output: dict[str, list[Recipe]] = {}
        for recipe in self.recipes:
            by_output.setdefault(recipe.output, []).append(recipe)
        object.__setattr__(self, "by_output", {name: tuple(recipes) for name, recipes in by_output.items()})
        object.__setattr__(self, "depths", _depths(self))
        object.__setattr__(self, "goals", tuple(sorted(self.by_output, key=self.depths.__getitem__)))

    @property
    def task_count(self) -> int:
        """Number of tasks."""
        return len(self.goals) * self.variants

    def members(self, name: str) -> tuple[str, ...]:
        """Items that satisfy an ingredient of this name: the tag's members, or the item itself."""
        return self.tags.get(name, (name,))

    def is_found(self, name: str) -> bool:
        """Whether ``get`` yields it: a known item that nothing makes."""
        return self.depths.get(name) == 0

    def shown(self, name: str) -> str:
        """An item as replies to ``craft`` name it."""
        return f"{self.namespace}{name.replace(' ', '_')}" if self.namespace else name


def parse_recipe(line: str) -> Recipe:
    """Read ``craft 2 rope using 3 flax, 1 resin``; BookError where it is not of that form."""
    match = _LINE.fullmatch(line)
    parts = [_PART.fullmatch(part) for part in match[3].split(", ")] if match else []
    if match is None or None in parts:
        raise BookError(f"recipe {line!r}: expected 'craft COUNT ITEM using COUNT ITEM, COUNT ITEM'")
    return Recipe(match[2], int(match[1]), tuple(Ingredient(part[2], int(part[1])) for part in parts if part))


def load_book(path: Path) -> Book:
    """Read a book in our own JSON format; BookError where it does not hold."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Book(
        name=raw["name"],
        recipes=tuple(parse_recipe(line) for line in raw["recipes"]),
        tags={name: tuple(members) for name, members in raw["tags"].items()},
        variants=raw["variants"],
        rule=ListingRule(**raw["listing"]),
    )


def shipped_book(name: str) -> Book:
    """The shipped book ``big`` or ``laptop``."""
    return load_book(_BOOKS / f"{name}.json")


def book_json(book: Book) -> str:
    """A book in our own JSON format, one recipe a line."""
    rule = {"fewest": book.rule.fewest, "most": book.rule.most, "most_lines": book.rule.most_lines, "related_only": book.rule.related_only}
    raw = {"name": book.name, "variants": book.variants, "listing": rule, "tags": book.tags, "recipes": [str(recipe) for recipe in book.recipes]}
    return json.dumps(raw, indent=1) + "\n"


def _depths(book: Book) -> dict[str, int]:
    inputs = {member for recipe in book.recipes for part in recipe.inputs for member in book.members(part.name)}
    names = {*inputs, *book.others, *book.by_output, *(member for members in book.tags.values() for member in members)}
    if clash := names & set(book.tags):
        raise BookError(f"book {book.name}: expected tags and items to have different names, got {sorted(clash)}")
    depths = {name: 0 for name in names if name not in book.by_output}
    makers = {**book.by_output, **book.tag_recipes}
    while open_names := [name for name in makers if name not in depths]:
        ready = {name: depth for name in open_names if (depth := _craft_depth(book, makers[name], depths)) is not None}
        if not ready:
            raise BookError(f"book {book.name}: expected every item to be reachable, got {sorted(open_names)[:5]} from nothing that is found")
        lowest = min(ready.values())
        depths.update({name: depth for name, depth in ready.items() if depth == lowest})
    return {name: depth for name, depth in depths.items() if name not in book.tags}


def _craft_depth(book: Book, recipes: Sequence[Recipe], depths: Mapping[str, int]) -> int | None:
    options = []
    for recipe in recipes:
        names = [(part.name,) if part.name in book.tag_recipes else book.members(part.name) for part in recipe.inputs]
        inputs = [[depths[name] for name in alike if name in depths] for alike in names]
        if all(inputs):
            options.append(1 + max(min(known) for known in inputs))
    return min(options, default=None)
