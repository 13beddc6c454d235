"""Ways through what is in view: which moves lead the agent to face a cell or to stand on it. Knows no names and no rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agentgym_envs.babyai.view import RIGHT_DOWN_LEFT_UP, VIEW_SIZE, Place, Sight

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)
"""MiniGrid's numbers of the moves."""

_State: TypeAlias = tuple[int, int, int]
"""Column, row and direction faced."""


@dataclass(slots=True)
class Paths:
    """All shortest ways from where the agent is. Among equally short ones AgentGym's choice is taken, since a way may meet a closed door."""

    sight: Sight
    blocked: Collection[Place]
    """Cells in view that cannot be entered."""
    _rank: dict[_State, int] = field(init=False)
    """In which order states are reached; near ones first."""
    _before: dict[_State, tuple[_State, int]] = field(init=False, default_factory=dict)
    """From a state to the one before it and the move between them."""

    def __post_init__(self) -> None:
        self._rank = self._search((*self.sight.place, self.sight.facing))

    def facing(self, place: Place) -> tuple[int, ...] | None:
        """Moves after which the agent faces ``place``; None where there is no way."""
        return self._moves([(place[0] - dx, place[1] - dy, facing) for facing, (dx, dy) in enumerate(RIGHT_DOWN_LEFT_UP)])

    def onto(self, place: Place) -> tuple[int, ...] | None:
        """Moves after which the agent stands on ``place``; None where there is no way."""
        return self._moves([(*place, facing) for facing in range(4)])

    def _moves(self, ends: Sequence[_State]) -> tuple[int, ...] | None:
        reached = [end for end in ends if end in self._rank]
        if not reached:
            return None
        state = min(reached, key=self._rank.__getitem__)
        moves = []
        while state in self._before:
            state, move = self._before[state]
            moves.append(move)
        return tuple(reversed(moves))

    def _search(self, start: _State) -> dict[_State, int]:
        """Breadth first.

        AgentGym's queue holds a state once for every way to it: its first entry says when it is looked at, its last entry which way is
        remembered. Both orders are kept here, each state once.
        """
        rank, free = {start: 0}, _cells(self.sight) - set(self.blocked)
        by_first, by_last = [start], [start]
        while by_first:
            onward = {state: [after for after in _next(state, free) if after[0] not in rank] for state in by_first}
            following = dict.fromkeys(new for state in by_first for new, _ in onward[state])
            latest: dict[_State, None] = {}
            for state in by_last:
                for new, move in onward[state]:
                    self._before[new] = (state, move)
                    latest.pop(new, None)
                    latest[new] = None
            for new in following:
                rank[new] = len(rank)
            by_first, by_last = list(following), list(latest)
        return rank


def _next(state: _State, free: Collection[Place]) -> list[tuple[_State, int]]:
    """The states one move on, and the moves, in the order in which AgentGym tries them."""
    x, y, facing = state
    turned = [((x, y, (facing - 1) % 4), LEFT), ((x, y, (facing + 1) % 4), RIGHT)]
    dx, dy = RIGHT_DOWN_LEFT_UP[facing]
    return [((x + dx, y + dy, facing), FORWARD), *turned] if (x + dx, y + dy) in free else turned


def _cells(sight: Sight) -> set[Place]:
    """Where a way may lead: the cells of the view, and, as in AgentGym, on some of its sides one row more."""
    (x, y), (ahead_x, ahead_y), (aside_x, aside_y) = sight.place, sight.ahead, sight.aside
    far_x = x + ahead_x * (VIEW_SIZE - 1) - aside_x * (VIEW_SIZE // 2)
    far_y = y + ahead_y * (VIEW_SIZE - 1) - aside_y * (VIEW_SIZE // 2)
    columns = _span(far_x, far_x + VIEW_SIZE * (aside_x - ahead_x))
    rows = _span(far_y, far_y + VIEW_SIZE * (aside_y - ahead_y))
    return {(column, row) for column in columns for row in rows}


def _span(far: int, near: int) -> range:
    return range(near, far + 1) if near < far else range(far, near)
