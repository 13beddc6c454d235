"""Which actions there are now, the moves that each stands for, and why others are refused. Knows no grid beyond what is in view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentgym_envs.babyai.paths import DROP, FORWARD, LEFT, PICK_UP, RIGHT, TOGGLE, Paths
from agentgym_envs.babyai.view import Sight, Thing, barrier_ahead

CHECK = "check available actions"
_NO_WAY = "as there is no path leading to it."
_SOLID = ("wall", "box", "ball", "key")


@dataclass(slots=True)
class Actions:
    """What can be done, in the order in which it is listed."""

    moves: dict[str, tuple[int, ...]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """From an action that is not listed to the reason."""


def actions_in(sight: Sight, things: Sequence[Thing]) -> Actions:
    """The actions, from what is in view."""
    offered = Actions({"turn left": (LEFT,), "turn right": (RIGHT,)})
    paths = Paths(sight, {thing.place for thing in things if thing.kind in _SOLID})
    to_face = {thing.place: paths.facing(thing.place) for thing in things if thing.kind != "wall"}
    _add_forward(offered, things)
    if sight.carrying is None:
        offered.refused["drop"] = "You cannot drop the object, as you are not carrying anything."
        _add_reachable(offered, "pickup", [thing for thing in things if thing.kind not in ("wall", "door")], to_face, (PICK_UP,))
    else:
        _add_drop(offered, sight, things)
    _add_doors(offered, sight, [thing for thing in things if thing.kind == "door"], to_face, paths)
    _add_reachable(offered, "go to", [thing for thing in things if thing.kind != "wall"], to_face, ())
    offered.moves[CHECK] = ()
    return offered


def _add_forward(offered: Actions, things: Sequence[Thing]) -> None:
    barrier = barrier_ahead(things)
    if barrier is None or barrier.forward > 1:
        offered.moves["move forward"] = (FORWARD,)
    else:
        offered.refused["move forward"] = "There is a barrier in front of you, you can't move forward."


def _add_reachable(
    offered: Actions, verb: str, targets: Sequence[Thing], to_face: Mapping[tuple[int, int], tuple[int, ...] | None], then: tuple[int, ...]
) -> None:
    """One action for each target that can be reached; as in AgentGym, the others do not count in its numbers."""
    numbers = Counter[str]()
    for thing in targets:
        way = to_face[thing.place]
        action = f"{verb} {thing.name} {numbers[thing.name] + 1}"
        if way is None:
            offered.refused[action] = f"You cannot {action}, {_NO_WAY}"
        else:
            offered.moves[action] = (*way, *then)
            numbers[thing.name] += 1


def _add_drop(offered: Actions, sight: Sight, things: Sequence[Thing]) -> None:
    if any(thing.place == sight.front and thing.kind in _SOLID for thing in things):
        offered.refused["drop"] = "You cannot drop the object, as there is already an object in front of you."
    else:
        offered.moves["drop"] = (DROP,)


def _add_doors(
    offered: Actions, sight: Sight, doors: Sequence[Thing], to_face: Mapping[tuple[int, int], tuple[int, ...] | None], paths: Paths
) -> None:
    numbers = Counter[str]()
    for door in doors:
        numbers[door.name] += 1
        numbered = f"{door.name} {numbers[door.name]}"
        colour, state, _ = door.name.split()
        if state == "open":
            _add_way(offered, f"go through {numbered}", paths.onto(door.place), ())
            continue
        if state == "closed":
            offered.refused[f"go through {numbered}"] = f"You cannot go through {numbered}, as it is closed. You should toggle it first."
        _add_opening(offered, f"toggle and go through {numbered}", to_face[door.place], _without_key(sight, colour) if state == "locked" else None)


def _add_opening(offered: Actions, action: str, way: tuple[int, ...] | None, locked: str | None) -> None:
    if locked is not None:
        offered.refused[action] = f"You cannot {action}, {locked}"
        return
    _add_way(offered, action, way, (TOGGLE, FORWARD))
    if way == ():
        offered.moves["toggle"] = (TOGGLE,)


def _add_way(offered: Actions, action: str, way: tuple[int, ...] | None, then: tuple[int, ...]) -> None:
    if way is None:
        offered.refused[action] = f"You cannot {action}, {_NO_WAY}"
    else:
        offered.moves[action] = (*way, *then)


def _without_key(sight: Sight, colour: str) -> str | None:
    """Why a locked door of the colour stays shut; None when its key is held."""
    if sight.carrying is None or sight.carrying[1] != "key":
        return "as you are not carrying a key."
    return None if sight.carrying[0] == colour else "as the color of the key you are carrying does not match the color of door."
