"""What the agent sees, in AgentGym's words: things with names, numbers and places. Reads MiniGrid's encoding of a view and imports none of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Place: TypeAlias = tuple[int, int]
"""Column and row of the grid; rows count downwards."""

RIGHT_DOWN_LEFT_UP: tuple[Place, ...] = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""One step ahead, by MiniGrid's number of the direction faced; the next number is a quarter turn to the right."""
VIEW_SIZE = 7
_AHEAD, _ASIDE = VIEW_SIZE - 1, VIEW_SIZE // 2
# MiniGrid's numbers for what a cell holds, its colour and a door's state.
_KINDS = {2: "wall", 4: "door", 5: "key", 6: "ball", 7: "box"}
_COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
_DOOR_STATES = ("open", "closed", "locked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The agent, and the square of cells before it."""

    cells: Sequence[Sequence[Sequence[int]]]
    """MiniGrid's view as lists, shape (7, 7, 3): column from the left, row from the farthest, then kind, colour, state. The agent is at (3, 6)."""
    place: Place
    facing: int
    """Index into RIGHT_DOWN_LEFT_UP."""
    carrying: tuple[str, str] | None = None
    """Colour and kind of what the agent holds."""

    @property
    def ahead(self) -> Place:
        """One step ahead, as a vector."""
        return RIGHT_DOWN_LEFT_UP[self.facing]

    @property
    def aside(self) -> Place:
        """One step to the right, as a vector."""
        return RIGHT_DOWN_LEFT_UP[(self.facing + 1) % 4]

    @property
    def front(self) -> Place:
        """The cell that the agent faces."""
        return self.place[0] + self.ahead[0], self.place[1] + self.ahead[1]


@dataclass(frozen=True, slots=True)
class Thing:
    """A wall, door, key, ball or box in view."""

    kind: str
    name: str
    """Colour and kind, a door with its state between them: ``red closed door``."""
    place: Place
    forward: int
    """Steps ahead of the agent."""
    rightward: int
    """Steps to its right; negative to its left."""


def things_in(sight: Sight) -> tuple[Thing, ...]:
    """Everything in view, the nearest first; equally near ones from the farthest row and the leftmost column on."""
    seen = []
    for row in range(VIEW_SIZE):
        for column in range(VIEW_SIZE):
            kind, colour, state = sight.cells[column][row]
            # The agent's own cell shows what it carries.
            if kind in _KINDS and (row, column) != (_AHEAD, _ASIDE):
                thing = _thing(sight, (_KINDS[kind], colour, state), _AHEAD - row, column - _ASIDE)
                if min(thing.place) >= 0:
                    seen.append(thing)
    return tuple(sorted(seen, key=lambda thing: thing.forward + abs(thing.rightward)))


def describe(sight: Sight, things: Sequence[Thing]) -> str:
    """The view in words."""
    return f"{_listed(things)}The room has walls around you. {_faced(things)}{_held(sight)}"


def barrier_ahead(things: Sequence[Thing]) -> Thing | None:
    """The nearest wall or box straight ahead."""
    return next((thing for thing in things if thing.rightward == 0 and thing.kind in ("wall", "box")), None)


def _thing(sight: Sight, looks: tuple[str, int, int], forward: int, rightward: int) -> Thing:
    kind, colour, state = looks
    (x, y), (ahead_x, ahead_y), (aside_x, aside_y) = sight.place, sight.ahead, sight.aside
    words = (_COLOURS[colour], _DOOR_STATES[state], kind) if kind == "door" else (_COLOURS[colour], kind)
    place = (x + forward * ahead_x + rightward * aside_x, y + forward * ahead_y + rightward * aside_y)
    return Thing(kind, " ".join(words), place, forward, rightward)


def _listed(things: Sequence[Thing]) -> str:
    if not things:
        return "You cannot see any objects within sight."
    said, numbers = "In front of you in this room, you can see several objects: ", Counter[str]()
    for thing in things:
        if thing.kind != "wall":
            numbers[thing.name] += 1
            said += f"There is a {thing.name} {numbers[thing.name]} {_where(thing)}.  "
    return said


def _where(thing: Thing) -> str:
    if thing.rightward == 0:
        return f"right in front of you {thing.forward} steps away"
    side = "right" if thing.rightward > 0 else "left"
    return f"{thing.forward} steps in front of you and {abs(thing.rightward)} steps to your {side}"


def _faced(things: Sequence[Thing]) -> str:
    barrier = barrier_ahead(things)
    return "" if barrier is None else f"You are facing a {barrier.kind} {barrier.forward} steps away. "


def _held(sight: Sight) -> str:
    return "You are not carrying anything." if sight.carrying is None else f"You are carrying a {' '.join(sight.carrying)}."
