"""MiniGrid's bot, what it does said as actions. Plays the task from its start, in rooms of its own."""

from __future__ import annotations

from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel
from minigrid.envs.babyai.core.verifier import PutNextInstr
from minigrid.utils.baby_ai_bot import BabyAIBot, DisappearedBoxError

from agentgym_envs.babyai.room import Room
from agentgym_envs.protocol import WorldError

_NOBODY = "Nobody knows how to solve this task"
_MOST_SEARCHES = 2_000
"""Searches of the bot for one move. It needs a few dozen, but where it wants two things at once it makes plans without end."""


class _LostError(Exception):
    """The bot plans without end."""


_GIVES_UP = (AssertionError, DisappearedBoxError, IndexError, TypeError, _LostError)
"""How the bot ends where it knows no way on."""


class _Bot(BabyAIBot):  # type: ignore[misc]
    """MiniGrid's bot, bounded."""

    searches = 0

    def _breadth_first_search(self, *args: object, **options: object) -> object:
        self.searches += 1
        if self.searches > _MOST_SEARCHES:
            raise _LostError
        return super()._breadth_first_search(*args, **options)


def solution(index: int, enough: float) -> tuple[str, ...]:
    """Actions that reach the goal of task ``index`` for more than ``enough``; WorldError where none are known."""
    left = _bot_moves(Room(index).level)
    room, said, reward = Room(index), list[str](), 0.0
    while left:
        action = _longest(room, left)
        moves = room.actions.moves[action]
        reward = room.act(moves).reward
        left = left[len(moves) :]
        said.append(action)
    if reward <= enough:
        raise WorldError(f"{_NOBODY} in time: MiniGrid's bot earns {max(reward, 0):.2f}.")
    return tuple(said)


def _longest(room: Room, moves: tuple[int, ...]) -> str:
    """The action that stands for the most of the next moves, and for nothing else."""
    fitting = [action for action, stands_for in room.actions.moves.items() if stands_for and moves[: len(stands_for)] == stands_for]
    if not fitting:
        raise WorldError(f"{_NOBODY} with the actions that are listed.")
    return max(fitting, key=lambda action: len(room.actions.moves[action]))


def _bot_moves(level: RoomGridLevel) -> tuple[int, ...]:
    """The bot's moves up to the goal."""
    bot, moves = _Bot(level), list[int]()
    if isinstance(level.instrs, PutNextInstr) and level.carrying in level.instrs.desc_move.obj_set:
        # What the bot would look for is in its hand: leave out going there and picking it up.
        del bot.stack[-2:]
    try:
        while len(moves) < level.max_steps:
            bot.searches = 0
            move = bot.replan(moves[-1] if moves else None)
            moves.append(int(move))
            # An end without reward does not count: AgentGym plays on, and some goals are only then reached.
            if level.step(move)[1] > 0:
                return tuple(moves)
    except _GIVES_UP as err:
        raise WorldError(f"{_NOBODY}: MiniGrid's bot gives up on it.") from err
    raise WorldError(f"{_NOBODY}: MiniGrid's bot has not after {level.max_steps} moves.")
