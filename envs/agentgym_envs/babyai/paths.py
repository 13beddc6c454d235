"""Ways through what is in view: which moves lead the agent to face a cell or to stand on it. Knows no names and no rules."""

from __future__ import annotations

from collections.abc import Collection

from agentgym_envs.babyai.view import RIGHT_DOWN_LEFT_UP, VIEW_SIZE, Place, Sight

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE = range(6)
"""MiniGrid's numbers of the moves."""

# A state is a number: 4 * (15 * row + column) + facing, on a square around the agent, who is at (7, 7).
_WIDE = 2 * VIEW_SIZE + 1
_CENTRE = VIEW_SIZE


def _state(column: int, row: int, facing: int) -> int:
    return 4 * (_WIDE * row + column) + facing


def _onward(column: int, row: int, facing: int) -> tuple[int, int, int]:
    """The states after FORWARD, LEFT and RIGHT, in the order in which AgentGym tries them."""
    dx, dy = RIGHT_DOWN_LEFT_UP[facing]
    return _state(column + dx, row + dy, facing), _state(column, row, (facing - 1) % 4), _state(column, row, (facing + 1) % 4)


_ONWARD = [_onward(column, row, facing) for row in range(_WIDE) for column in range(_WIDE) for facing in range(4)]


class Paths:
    """All shortest ways from where the agent is. Among equally short ones AgentGym's choice is taken, since a way may meet a closed door.

    AgentGym searches breadth first with a queue that holds a state once for every way to it: its first entry says when it is looked at, its last
    entry which way is remembered. Both orders are kept here, each state once; the search goes on as far as it is asked to.
    """

    def __init__(self, sight: Sight, blocked: Collection[Place]) -> None:
        """``blocked`` are cells in view that cannot be entered."""
        self._place = sight.place
        self._free = _free_cells(sight, blocked)
        start = _state(_CENTRE, _CENTRE, sight.facing)
        self._rank = {start: 0}
        """In which order states are reached."""
        self._before: dict[int, int] = {}
        """From a state to the one before it."""
        self._by_first, self._by_last = [start], [start]

    def facing(self, place: Place) -> tuple[int, ...] | None:
        """Moves after which the agent faces ``place``; None where there is no way."""
        return self._moves(place, [(-dx, -dy) for dx, dy in RIGHT_DOWN_LEFT_UP])

    def onto(self, place: Place) -> tuple[int, ...] | None:
        """Moves after which the agent stands on ``place``; None where there is no way."""
        return self._moves(place, [(0, 0)] * 4)

    def _moves(self, place: Place, offsets: list[Place]) -> tuple[int, ...] | None:
        """The way to the first of four states to be reached: one for each direction faced, its cell at an offset from the place."""
        column, row = place[0] - self._place[0] + _CENTRE, place[1] - self._place[1] + _CENTRE
        ends = [_state(column + dx, row + dy, facing) for facing, (dx, dy) in enumerate(offsets)]
        while not (reached := [end for end in ends if end in self._rank]):
            if not self._by_first:
                return None
            self._search_on()
        return self._way(min(reached, key=self._rank.__getitem__))

    def _way(self, state: int) -> tuple[int, ...]:
        moves = []
        while state in self._before:
            before = self._before[state]
            moves.append((FORWARD, LEFT, RIGHT)[_ONWARD[before].index(state)])
            state = before
        return tuple(reversed(moves))

    def _search_on(self) -> None:
        """All states that are one move farther than those of the last call."""
        rank, free, before = self._rank, self._free, self._before
        following: dict[int, None] = {}
        for state in self._by_first:
            for new in _ONWARD[state]:
                if new not in rank and free[new >> 2]:
                    following[new] = None
        latest: dict[int, None] = {}
        for state in self._by_last:
            for new in _ONWARD[state]:
                if new in following:
                    before[new] = state
                    latest.pop(new, None)
                    latest[new] = None
        for new in following:
            rank[new] = len(rank)
        self._by_first, self._by_last = list(following), list(latest)


def _free_cells(sight: Sight, blocked: Collection[Place]) -> bytearray:
    """1 for each cell that a way may enter: those of the view, and, as in AgentGym, on some of its sides one row more."""
    (ahead_x, ahead_y), (aside_x, aside_y) = sight.ahead, sight.aside
    far_x = ahead_x * (VIEW_SIZE - 1) - aside_x * (VIEW_SIZE // 2)
    far_y = ahead_y * (VIEW_SIZE - 1) - aside_y * (VIEW_SIZE // 2)
    free = bytearray(_WIDE * _WIDE)
    columns = _span(far_x, far_x + VIEW_SIZE * (aside_x - ahead_x))
    for row in _span(far_y, far_y + VIEW_SIZE * (aside_y - ahead_y)):
        start = _WIDE * (row + _CENTRE) + _CENTRE
        free[start + columns.start : start + columns.stop] = b"\1" * len(columns)
    for x, y in blocked:
        free[_WIDE * (y - sight.place[1] + _CENTRE) + x - sight.place[0] + _CENTRE] = 0
    return free


def _span(far: int, near: int) -> range:
    return range(near, far + 1) if near < far else range(far, near)
