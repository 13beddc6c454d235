"""What the shell asks of a world. Knows no HTTP and no particular world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class WorldError(Exception):
    """The world refuses a call; the message is what the client reads as ``{"error": message}``."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the world says to one action."""

    observation: str
    reward: int
    done: bool


class Session(Protocol):
    """One task at a time, from reset to done. Calls on one session never interleave; WorldError refuses a call and changes nothing."""

    def reset(self, index: int) -> str:
        """Start task ``index`` and return its first observation."""

    def step(self, action: str) -> Step:
        """Execute one action."""

    def goal(self) -> str:
        """What the task asks for, in words."""

    def commands(self) -> tuple[str, ...]:
        """What the task tells the policy it may use."""

    def oracle(self) -> tuple[str, ...]:
        """Actions that solve the task from its start."""

    def close(self) -> None:
        """Release what the session holds outside this process's memory; called once, after its last call."""


class World(Protocol):
    """One kind of task, and what all its sessions share."""

    @property
    def name(self) -> str:
        """As on the command line, e.g. ``textcraft``."""

    @property
    def greeting(self) -> str:
        """What ``GET /`` answers."""

    @property
    def blocking(self) -> bool:
        """Whether calls may take longer than a millisecond or two, so that the shell runs them in threads."""

    @property
    def task_count(self) -> int:
        """Tasks are numbered from 0 to ``task_count - 1``."""

    def open(self) -> Session:
        """A session that has not been reset yet."""
