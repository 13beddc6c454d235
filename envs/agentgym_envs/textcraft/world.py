"""TextCraft: make a goal from what can be found. Knows no HTTP. The rules and replies are upstream's but for the table in README.md."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agentgym_envs.protocol import JSON, Start, Step, WorldError
from agentgym_envs.textcraft.book import MOST_HELD, Book, Ingredient, Recipe
from agentgym_envs.textcraft.listing import goal_of, listed_recipes, render
from agentgym_envs.textcraft.matching import satisfies
from agentgym_envs.textcraft.plan import plan

_CRAFT = re.compile(r"craft (.*) using (.*)")
_GET = re.compile(r"get ([0-9]+) (.*)")
_INVENTORY = re.compile(r"inventory")
_COUNTED = re.compile(r"([0-9]+) (.*)")
MOST_ACTION_CHARACTERS = 4_000
"""A longer action is not executed; the reply quotes its beginning. Below the 4,300 digits that int() reads."""
_QUOTED_CHARACTERS = 200


class _Refused(Exception):
    """The action has no effect; the message is the observation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCraft:
    """The world: a book, and how task numbers are read."""

    book: Book
    wrap: bool = False
    """Take task numbers modulo their count, as upstream does, where they would be refused."""
    name: str = "textcraft"
    wire: str = "textcraft"
    greeting: str = "This is environment TextCraft."
    blocking: bool = False
    _listings: dict[int, tuple[Recipe, ...]] = field(default_factory=dict, repr=False)
    """Listings made so far: what a group of sessions asks for eight times is worked out once."""

    @property
    def task_count(self) -> int:
        """Tasks are numbered from 0 to ``task_count - 1``."""
        return self.book.task_count

    def listing(self, index: int) -> tuple[Recipe, ...]:
        """The recipes that task ``index`` lists, 0 <= index < task_count."""
        if index not in self._listings:
            self._listings[index] = listed_recipes(self.book, index)
        return self._listings[index]

    def open(self) -> TextCraftSession:
        """A session that has not been reset yet."""
        return TextCraftSession(self)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(slots=True)
class TextCraftSession:
    """One task, its inventory and whether it is done."""

    world: TextCraft
    _goal: str | None = None
    _listed: tuple[Recipe, ...] = ()
    _done: bool = False
    _inventory: dict[str, int] = field(default_factory=dict)

    def reset(self, index: int) -> Start:
        """Start task ``index`` with an empty inventory."""
        count = self.world.task_count
        if not self.world.wrap and not 0 <= index < count:
            raise WorldError(f"The data_idx {str(index)[:40]} is out of range: expected 0 to {count - 1}.")
        self._goal, self._listed = goal_of(self.world.book, index % count), self.world.listing(index % count)
        self._done, self._inventory = False, {}
        return Start(render(self._listed, self._goal))

    def step(self, action: str) -> Step:
        """Execute one action; reward 1 and done when it makes the goal."""
        goal = self._asked()
        if self._done:
            raise WorldError("The task has finished. Reset the session to start a task.")
        try:
            observation, made = self._execute(action)
        except _Refused as refused:
            return Step(str(refused), 0, False)
        self._done = made == goal
        return Step(observation, int(self._done), self._done)

    def look(self, name: str) -> JSON:
        """The ``goal``, or the ``commands``: the listed recipes, one a line."""
        goal = self._asked()
        match name:
            case "goal":
                return goal
            case "commands":
                return "\n".join(map(str, self._listed))
        raise WorldError(f"The world shows a goal and commands, not {name[:_QUOTED_CHARACTERS]}.")

    def oracle(self) -> tuple[str, ...]:
        """Actions that make the goal from an empty inventory with the listed recipes; WorldError where they are too many."""
        return plan(self.world.book, self._listed, self._asked())

    def verify(self) -> bool:
        """There is no verifier: the reward says it all."""
        raise WorldError("The world has no verifier.")

    def close(self) -> None:
        """Nothing is held."""

    def _asked(self) -> str:
        """The item to make."""
        if self._goal is None:
            raise WorldError("The session has no task. Reset it first.")
        return self._goal

    def _execute(self, action: str) -> tuple[str, str | None]:
        """The observation, and the item that was crafted."""
        if len(action) > MOST_ACTION_CHARACTERS:
            raise _Refused(f"Could not execute {action[:_QUOTED_CHARACTERS]}")
        if match := _CRAFT.match(action):
            return self._craft(match[1], match[2])
        if match := _GET.match(action):
            return self._get(match[1], match[2]), None
        if _INVENTORY.match(action):
            return self._show(), None
        raise _Refused(f"Could not execute {action}")

    def _get(self, amount: str, typed: str) -> str:
        name = _item(typed)
        if not self.world.book.is_found(name):
            raise _Refused(f"Could not find {typed}")
        count = int(amount)
        held = self._inventory.get(name, 0) + count
        if held > MOST_HELD:
            raise _Refused(f"Could not find that many {typed}")
        self._inventory[name] = held
        return f"Got {count} {typed}"

    def _show(self) -> str:
        if not self._inventory:
            return "Inventory: You are not carrying anything."
        return "Inventory: " + "".join(f"[{name}] ({count}) " for name, count in self._inventory.items())

    def _craft(self, target: str, using: str) -> tuple[str, str]:
        counted = _COUNTED.match(target)
        stated, name = (int(counted[1]), _item(counted[2])) if counted else (1, _item(target))
        inputs = [_ingredient(part.strip()) for part in using.split(",")]
        book = self.world.book
        if not self._holds(inputs):
            raise _Refused(f"Could not find enough items to craft {book.shown(name)}")
        recipe = next((recipe for recipe in book.by_output.get(name, ()) if satisfies(book, recipe.inputs, inputs)), None)
        if recipe is None:
            raise _Refused(f"Could not find a valid recipe for {stated} {book.shown(name)}")
        for part in inputs:
            self._add(part.name, -part.count)
        self._add(name, recipe.count)
        return f"Crafted {recipe.count} {book.shown(name)}", name

    def _holds(self, inputs: list[Ingredient]) -> bool:
        needed: dict[str, int] = {}
        for part in inputs:
            needed[part.name] = needed.get(part.name, 0) + part.count
        return all(name in self._inventory and self._inventory[name] >= count for name, count in needed.items())

    def _add(self, name: str, count: int) -> None:
        held = self._inventory.get(name, 0) + count
        if held:
            self._inventory[name] = held
        else:
            del self._inventory[name]


def _item(typed: str) -> str:
    """An item's words; upstream reads underscores as spaces."""
    return typed.replace("_", " ")


def _ingredient(part: str) -> Ingredient:
    match = _COUNTED.match(part)
    if match is None:
        raise _Refused(f"Wrong item format: {part}")
    return Ingredient(_item(match[2]), int(match[1]))
