"""The oracle: actions that make a goal from what can be found, with the listed recipes only. Knows no session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentgym_envs.protocol import WorldError
from agentgym_envs.textcraft.book import MOST_HELD, Book, Ingredient, Recipe

MOST_ACTIONS = 10_000
"""A longer plan is refused before it is written down."""
MOST_DEPTH = 200
"""Crafts in a row, from what is found to the goal, of which a plan is worked out."""


def plan(book: Book, recipes: Iterable[Recipe], goal: str) -> tuple[str, ...]:
    """Actions from an empty inventory to ``goal``: each ingredient is got or made just before the craft that uses it.

    Of several recipes the one of least depth is used, then the first of the book; of a tag's members the shallowest, then the first.

    Raises:
        WorldError: that takes more than ``MOST_ACTIONS``, more than ``MOST_DEPTH`` crafts in a row, or more of an item than can be held.
    """
    if book.depths[goal] > MOST_DEPTH:
        raise WorldError(f"The goal takes {book.depths[goal]} crafts in a row; solutions are told up to {MOST_DEPTH}.")
    planner = _Planner(book, set(recipes))
    planner.obtain(goal, 1)
    return tuple(action for action, times in planner.actions for _ in range(times))


@dataclass(slots=True)
class _Planner:
    book: Book
    allowed: set[Recipe]
    held: Counter[str] = field(default_factory=Counter)
    aside: Counter[str] = field(default_factory=Counter)
    """Held too, and promised to a craft that is being prepared."""
    actions: list[tuple[str, int]] = field(default_factory=list)
    """Each with how often in a row."""
    count: int = 0

    def obtain(self, name: str, count: int) -> None:
        """Hold at least ``count`` of item ``name``."""
        missing = count - self.held[name]
        if missing <= 0:
            return
        if self.book.is_found(name):
            if self.held[name] + self.aside[name] + missing > MOST_HELD:
                raise WorldError(f"The goal takes more {name[:40]} at once than the {MOST_HELD} that can be held.")
            self._add(f"get {missing} {name}")
            self.held[name] += missing
            return
        recipe = min((r for r in self.book.by_output[name] if r in self.allowed), key=self._recipe_depth)
        self._craft(recipe, times=-(-missing // recipe.count))

    def _craft(self, recipe: Recipe, *, times: int) -> None:
        concrete = [Ingredient(self._member(part), part.count) for part in recipe.inputs]
        used = Counter[str]()
        for part in concrete:
            used[part.name] += part.count * times
        self._obtain_all(used)
        self.held.subtract(used)
        self.held[recipe.output] += recipe.count * times
        self._add(str(Recipe(recipe.output, recipe.count, tuple(concrete))), times)

    def _add(self, action: str, times: int = 1) -> None:
        self.count += times
        if self.count > MOST_ACTIONS:
            raise WorldError(f"The goal takes more than {MOST_ACTIONS} actions; no solution that long is told.")
        self.actions.append((action, times))

    def _obtain_all(self, used: Counter[str]) -> None:
        """Hold all of ``used`` at once; what is obtained first is set aside so that making the rest does not use it up."""
        for name, count in used.items():
            self.obtain(name, count)
            self.held[name] -= count
            self.aside[name] += count
        self.held.update(used)
        self.aside.subtract(used)

    def _member(self, part: Ingredient) -> str:
        return min(self.book.members(part.name), key=self.book.depths.__getitem__)

    def _recipe_depth(self, recipe: Recipe) -> int:
        return max(min(self.book.depths[name] for name in self.book.members(part.name)) for part in recipe.inputs)
