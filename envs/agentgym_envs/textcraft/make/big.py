"""The big book: as many items, recipes, tags and goals as the game's, with the same counts of everything countable, in words of our own.

The marginal counts (facts about the game's recipes, not its recipes) are met exactly; who uses what is drawn from a fixed seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from agentgym_envs.textcraft.book import Book, Ingredient, Recipe
from agentgym_envs.textcraft.make.names import Draft, drafts, found_items
from agentgym_envs.textcraft.make.words import TAGS

T = TypeVar("T")
_SEED = 9
_OUTPUT_COUNTS = {1: 301, 2: 27, 3: 65, 4: 62, 6: 59, 8: 80, 16: 19}
_INPUT_COUNTS = {1: 384, 2: 111, 3: 111, 4: 114, 5: 17, 6: 123, 7: 11, 8: 83, 9: 19}
_INPUTS = {
    "simple 1": {1: 115, 2: 22, 3: 3},
    "simple": {1: 141, 2: 35, 3: 35, 4: 3, 5: 2},
    "finished": {2: 177},
    "last": {2: 8, 3: 3},
    "second": {1: 50, 2: 19},
}
"""Inputs per recipe, for unfinished goals of depth 1, those of depth 2 and 3, finished ones, depth 4, and recipes beside an item's first."""
_TAG_INPUTS = 39
_DRAWS = 3
"""How many counts are drawn for a made input, to keep the one that needs the fewest crafts."""
_POPULAR = 10
_MADE_EXTRAS = {1: 0.0, 2: 0.4, 3: 1.0, 4: 0.7}
"""Share of further inputs that are made, by depth."""
_MANY_RECIPES = {"madder paste": 2, "woad paste": 3, "weld paste": 3, "orchil paste": 3, "sumac paste": 4}
"""Recipes beside the first, for the five items with three to five."""
_TWO_RECIPES = {1: 33, 2: 16, 3: 5}
"""Items with two recipes, by depth."""


def big_book() -> Book:
    """544 goals, 140/280/113/11 at depth 1/2/3/4, one listing each."""
    maker = _Maker(random.Random(_SEED))
    outlines = maker.outlines()
    return Book(name="big", recipes=tuple(maker.counted(outlines)), tags=TAGS)


@dataclass(frozen=True, slots=True)
class _Outline:
    """A recipe without counts."""

    output: str
    inputs: tuple[str, ...]


@dataclass(slots=True)
class _Maker:
    rng: random.Random
    depths: dict[str, int] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    popular: list[list[str]] = field(default_factory=list)
    """By depth, the things that further inputs are drawn from."""

    def outlines(self) -> list[_Outline]:
        """Every recipe's output and inputs."""
        found = found_items(self._shuffled)
        goals = drafts(self._shuffled)
        self.depths = dict.fromkeys(found, 0) | {draft.name: draft.depth for draft in goals}
        roots = {draft.root for draft in goals}
        self.unused = self._shuffled([name for name in found if name not in roots])
        sizes = {kind: self._shuffled(_spread(counts)) for kind, counts in _INPUTS.items()}
        self.popular = [self._shuffled([name for name, level in self.depths.items() if level == depth])[:_POPULAR] for depth in range(4)]
        tags = self._tag_uses()
        outlines = []
        for draft in goals:
            size = sizes[_size_kind(draft)].pop()
            tagged = [tags.pop()] if tags and draft.depth > 1 and not draft.agent and size > 1 else []
            outlines.append(_Outline(draft.name, self._filled([draft.root, *([draft.agent] if draft.agent else []), *tagged], size, draft.depth)))
        outlines += self._seconds(goals, outlines, sizes["second"])
        return outlines

    def counted(self, outlines: Sequence[_Outline]) -> Iterable[Recipe]:
        """Recipes with counts: what is used further tends to come in larger yields, and made inputs tend to be asked for in what one craft yields."""
        used = {name for outline in outlines for name in outline.inputs}
        yields = sorted(_spread(_OUTPUT_COUNTS), reverse=True)
        by_need = sorted(range(len(outlines)), key=lambda place: self.rng.random() - 0.35 * (outlines[place].output in used))
        made = {place: yields[rank] for rank, place in enumerate(by_need)}
        first_yield: dict[str, int] = {}
        for place, outline in enumerate(outlines):
            first_yield.setdefault(outline.output, made[place])
        pool = self._shuffled(_spread(_INPUT_COUNTS))
        slots = [(place, name) for place, outline in enumerate(outlines) for name in outline.inputs]
        counts: dict[tuple[int, str], int] = {}
        for slot in self._shuffled([slot for slot in slots if self.depths.get(slot[1], 1)]):
            counts[slot] = self._fitting(pool, first_yield.get(slot[1], 1))
        for slot in slots:
            if slot not in counts:
                counts[slot] = pool.pop()
        for place, outline in enumerate(outlines):
            yield Recipe(outline.output, made[place], tuple(Ingredient(name, counts[place, name]) for name in outline.inputs))

    def _fitting(self, pool: list[int], per_craft: int) -> int:
        """Take a count from the pool: the one of three drawn that needs the fewest crafts."""
        drawn = [int(self.rng.random() * len(pool)) for _ in range(_DRAWS)]
        return pool.pop(min(drawn, key=lambda place: -(-pool[place] // per_craft)))

    def _tag_uses(self) -> list[str]:
        """Each tag at least once, some again."""
        uses = [*TAGS, *self._shuffled(list(TAGS))[: _TAG_INPUTS - len(TAGS)]]
        return self._shuffled(uses)

    def _filled(self, inputs: list[str], size: int, depth: int) -> tuple[str, ...]:
        """``inputs`` and found things to make ``size``; things that nothing uses yet come first."""
        while len(inputs) < size:
            made = self.rng.random() < _MADE_EXTRAS[depth]
            extra = self._pick(self.popular[1 + int(self.rng.random() * (depth - 1))]) if made else self._found_extra()
            if extra not in inputs:
                inputs.append(extra)
        return tuple(inputs)

    def _found_extra(self) -> str:
        return self.unused.pop() if self.unused else self._pick(self.popular[0])

    def _seconds(self, goals: Sequence[Draft], first: Sequence[_Outline], sizes: list[int]) -> list[_Outline]:
        """Further recipes for what is most used: the same depth, another root."""
        by_name = {draft.name: draft for draft in goals}
        uses = Counter(name for outline in first for name in outline.inputs)
        wanted = [by_name[name] for name, count in _MANY_RECIPES.items() for _ in range(count)]
        for depth, count in _TWO_RECIPES.items():
            simple = [draft for draft in goals if draft.depth == depth and not draft.agent and draft.name not in _MANY_RECIPES]
            wanted += sorted(self._shuffled(simple), key=lambda draft: -uses[draft.name])[:count]
        taken = {(outline.output, outline.inputs[0]) for outline in first}
        outlines = []
        for draft in wanted:
            options = [other.root for other in goals if other.depth == draft.depth and (draft.name, other.root) not in taken]
            root = self._pick(options)
            taken.add((draft.name, root))
            outlines.append(_Outline(draft.name, self._filled([root], sizes.pop(), draft.depth)))
        return outlines

    def _pick(self, options: Sequence[T]) -> T:
        return options[int(self.rng.random() * len(options))]

    def _shuffled(self, things: Sequence[T]) -> list[T]:
        """Sorted by drawn keys: unlike ``shuffle``, the same in every Python."""
        return sorted(things, key=lambda _: self.rng.random())


def _size_kind(draft: Draft) -> str:
    if draft.depth == 4:
        return "last"
    if draft.agent:
        return "finished"
    return "simple 1" if draft.depth == 1 else "simple"


def _spread(counts: dict[int, int]) -> list[int]:
    return [value for value, times in counts.items() for _ in range(times)]
