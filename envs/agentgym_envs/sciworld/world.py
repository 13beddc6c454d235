"""SciWorld: experiments in a house of ten rooms. Knows no HTTP. Rules and replies are the simulator's, scores and ends AgentGym's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentgym_envs.protocol import JSON, Start, Step, WorldError
from agentgym_envs.sciworld.pool import Pool
from agentgym_envs.sciworld.simulator import Moved, Simulator, SimulatorLost
from agentgym_envs.sciworld.tasks import Task

MOST_MOVES = 100
"""A task with more is over."""
MOST_ACTION_CHARACTERS = 1_000
"""A longer action is no action. The simulator takes a second and more over a megabyte."""
_FIRST = "look around"
_NOTHING = ""
"""What the simulator is given in place of an action that is too long, so that it answers as to any other that it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SciWorld:
    """The world: its tasks, and the simulators that play them."""

    tasks: tuple[Task, ...]
    pool: Pool
    name: str = "sciworld"
    wire: str = "sciworld"
    greeting: str = "This is environment ScienceWorld."
    blocking: bool = True
    golden: dict[int, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """Gold paths worked out so far, by task number."""

    @property
    def task_count(self) -> int:
        """Tasks are numbered from 0 to ``task_count - 1``."""
        return len(self.tasks)

    def open(self) -> SciWorldSession:
        """A session without a simulator; its first reset takes one."""
        return SciWorldSession(self)

    def close(self) -> None:
        """End the simulators."""
        self.pool.close()


@dataclass(slots=True)
class SciWorldSession:
    """One task; from its reset until it is done, a simulator of its own."""

    world: SciWorld
    _index: int | None = None
    _about: Mapping[str, JSON] = field(default_factory=dict)
    _simulator: Simulator | None = None
    _actions: list[str] = field(default_factory=list)
    """Since the reset, as the simulator got them."""
    _score: int = 0
    _done: bool = False

    def reset(self, index: int) -> Start:
        """Start task ``index``; pool.Full when no simulator is free."""
        count = self.world.task_count
        if not 0 <= index < count:
            raise WorldError(f"The data_idx {str(index)[:40]} is out of range: expected 0 to {count - 1}.")
        task = self.world.tasks[index]
        try:
            if self._simulator is not None and not self._simulator.alive:
                self._release()
                self._index = None
            if self._simulator is None:
                self._simulator = self.world.pool.lease()
            description = self._simulator.load(task.name, task.variation)
            moved = self._simulator.act(_FIRST)
        except SimulatorLost as err:
            raise self._lost(err) from err
        self._index, self._done, self._actions = index, False, [_FIRST]
        self._about = {"task_name": task.name, "var_num": task.variation, "task_description": description}
        self._score = moved.score
        return Start(moved.observation, {**self._about, "score": moved.score})

    def step(self, action: str) -> Step:
        """Execute one action; the reward is the change of the score."""
        simulator = self._playing()
        given = action if len(action) <= MOST_ACTION_CHARACTERS else _NOTHING
        try:
            moved = simulator.act(given)
        except SimulatorLost as err:
            raise self._lost(err) from err
        reward, self._score = moved.score - self._score, moved.score
        self._actions.append(given)
        self._done = _over(moved)
        if self._done:
            self._release()
        return Step(moved.observation, reward, self._done, {**self._about, "score": moved.score})

    def look(self, name: str) -> JSON:
        """``goals``, how far they are reached, and ``action_hint``, what can be said and about what."""
        simulator = self._playing()
        try:
            match name:
                case "goals":
                    return simulator.progress()
                case "action_hint":
                    return {"possible_actions": simulator.possible_actions(), "possible_objects": simulator.possible_objects()}
        except SimulatorLost as err:
            raise self._lost(err) from err
        raise WorldError(f"This world shows nothing called {name[:40]}.")

    def oracle(self) -> tuple[str, ...]:
        """The package's gold path. The first time it is asked for, the simulator plays it, and then this session's actions again."""
        if self._index is None:
            raise _no_task()
        if self._index not in self.world.golden:
            simulator, task = self._playing(), self.world.tasks[self._index]
            try:
                simulator.load(task.name, task.variation, gold=True)
                self.world.golden[self._index] = simulator.gold()
                for action in self._actions:
                    simulator.act(action)
            except SimulatorLost as err:
                raise self._lost(err) from err
        return self.world.golden[self._index]

    def verify(self) -> bool:
        """There is nothing beside the score, which is read from the state already."""
        raise WorldError("This world has no verifier beside its score.")

    def close(self) -> None:
        """Give the simulator back."""
        self._release()

    def _playing(self) -> Simulator:
        if self._index is None:
            raise _no_task()
        if self._done:
            raise WorldError("The task has finished. Reset the session to start a task.")
        assert self._simulator is not None
        return self._simulator

    def _lost(self, err: SimulatorLost) -> WorldError:
        """The task is gone with its simulator; the session is as before its first reset."""
        self._release()
        self._index = None
        return WorldError(f"{err}. The task is lost; reset the session to start another.")

    def _release(self) -> None:
        simulator, self._simulator = self._simulator, None
        if simulator is not None:
            self.world.pool.give_back(simulator)


def _over(moved: Moved) -> bool:
    """As the package has it: completed, out of moves, or made impossible. So being over does not mean having succeeded."""
    return moved.completed or moved.moves > MOST_MOVES or moved.score < 0


def _no_task() -> WorldError:
    return WorldError("The session has no task. Reset it first.")
