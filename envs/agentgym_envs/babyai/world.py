"""BabyAI as AgentGym plays it: named actions on a small grid. Knows no HTTP. The texts and rules are upstream's but for the table in README.md."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agentgym_envs.babyai.levels import LEVELS, SEEDS
from agentgym_envs.babyai.oracle import solution
from agentgym_envs.babyai.room import Room
from agentgym_envs.protocol import JSON, Start, Step, WorldError

ENOUGH = 0.5
"""A goal reached for no more than this reward does not end the task."""
MOST_ACTION_CHARACTERS = 4_000
"""A longer action is not recognized."""
_UNKNOWN = "The action is not recognized. Please check valid actions."
_NO_CHANGE = "No change in state."
_COMPLETED = "\n The task is completed."


@dataclass(frozen=True, slots=True)
class BabyAI:
    """The world."""

    name: str = "babyai"
    wire: str = "babyai"
    greeting: str = "This is environment BabyAI."
    blocking: bool = True

    @property
    def task_count(self) -> int:
        """Task ``n`` is level ``n % 40`` with seed ``n // 40``."""
        return len(LEVELS) * SEEDS

    def open(self) -> BabyAISession:
        """A session that has not been reset yet."""
        return BabyAISession(self.task_count)

    def close(self) -> None:
        """Nothing is shared."""


class BabyAISession:
    """One task, what it has paid so far, and whether it is done."""

    def __init__(self, task_count: int) -> None:
        self._task_count = task_count
        self._index = 0
        self._room: Room | None = None
        self._score = 0.0
        self._paid = False
        self._done = False

    def reset(self, index: int) -> Start:
        """Start task ``index``."""
        if not 0 <= index < self._task_count:
            raise WorldError(f"The data_idx {str(index)[:40]} is out of range: expected 0 to {self._task_count - 1}.")
        room = Room(index)
        self._room, self._index, self._score, self._paid, self._done = room, index, 0.0, False, False
        return Start(_with_actions(f"Your goal: {room.goal}\n{room.description}", room), {"score": 0, "goal": room.goal})

    def step(self, action: str) -> Step:
        """Execute one action; done when it reaches the goal for more than ENOUGH."""
        room = self._task()
        if self._done:
            raise WorldError("The task has finished. Reset the session to start a task.")
        # Lower case may be longer.
        named = action.lower().strip() if len(action) <= MOST_ACTION_CHARACTERS else action
        said = _reply_without_moves(room, named)
        observation, reward = self._moved(room, room.actions.moves[named]) if said is None else (said, 0)
        return Step(_with_actions(observation, room), reward, self._done, {"score": _number(self._score), "goal": room.goal})

    def look(self, name: str) -> JSON:
        """``goal``, ``commands`` (the listed actions) or ``render`` (a PNG as a ``data:`` URL)."""
        room = self._task()
        match name:
            case "goal":
                return room.goal
            case "commands":
                return list(room.actions.moves)
            case "render":
                return room.picture()
            case _:
                raise WorldError(f"There is nothing called {name[:40]} to look at.")

    def oracle(self) -> tuple[str, ...]:
        """Actions that solve the task from its start, from MiniGrid's bot."""
        self._task()
        return solution(self._index, ENOUGH)

    def verify(self) -> bool:
        """There is no verifier beside MiniGrid's, which decides the reward."""
        raise WorldError("This world has no verifier: the reward is read from the state.")

    def close(self) -> None:
        """Nothing is held."""

    def _task(self) -> Room:
        if self._room is None:
            raise WorldError("The session has no task. Reset it first.")
        return self._room

    def _moved(self, room: Room, moves: tuple[int, ...]) -> tuple[str, float]:
        """The observation after the moves, and what they pay: a goal is paid once, and never below 0."""
        moved = room.act(moves)
        reward = max(moved.reward, 0.0) if moved.ended and not self._paid else 0.0
        self._paid = self._paid or reward > 0
        self._done = reward > ENOUGH
        self._score += reward
        return room.description + (_COMPLETED if moved.ended else ""), _number(reward)


def _reply_without_moves(room: Room, action: str) -> str | None:
    """What is said to an action that moves nothing; None where it stands for moves."""
    if len(action) > MOST_ACTION_CHARACTERS:
        return _UNKNOWN
    if "check" in action:
        return f"You can take the following actions: {', '.join(room.actions.moves)}"
    if not action or room.actions.moves.get(action) == ():
        return _NO_CHANGE
    return None if action in room.actions.moves else room.actions.refused.get(action, _UNKNOWN)


def _with_actions(text: str, room: Room) -> str:
    return f"{text}\nAvailable actions: {json.dumps(list(room.actions.moves))}"


def _number(reward: float) -> float:
    """A reward of nothing is written ``0``, as upstream writes it."""
    return reward or 0
