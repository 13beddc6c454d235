"""What the shell asks of a world. Knows no HTTP and no particular world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeAlias

ORACLE_CALLS = 5
"""An oracle may take so many times as long as another call: some have to search for what solves a task."""
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"


class WorldError(Exception):
    """The world refuses a call; the message is what the client reads, e.g. as ``{"error": message}``."""

    kind: ClassVar[str] = "refused"
    """How the server's metrics count it."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the world says when a task starts."""

    observation: str
    extra: Mapping[str, JSON] = field(default_factory=dict)
    """Further fields of the wire's reply."""


@dataclass(frozen=True, slots=True)
class Step:
    """What the world says to one action."""

    observation: str
    reward: float
    done: bool
    extra: Mapping[str, JSON] = field(default_factory=dict)
    """Further fields of the wire's reply, e.g. score, info or moves."""


class Session(Protocol):
    """One task at a time, from reset to done. Calls on one session never interleave; WorldError refuses a call and changes nothing."""

    def reset(self, index: int) -> Start:
        """Start task ``index``."""

    def step(self, action: str) -> Step:
        """Execute one action."""

    def look(self, name: str) -> JSON:
        """What the session shows under a name, e.g. goal, commands or render; nothing changes. WorldError where there is no such thing."""

    def oracle(self) -> tuple[str, ...]:
        """Actions that solve the task from its start; WorldError where nobody knows them."""

    def verify(self) -> bool:
        """Whether the state satisfies the task, read from the state and never from what was said; WorldError where there is no verifier."""

    def close(self) -> None:
        """Release what the session holds outside this process's memory; called once, after its last call."""


class World(Protocol):
    """One kind of task, and what all its sessions share."""

    @property
    def name(self) -> str:
        """As on the command line, e.g. ``textcraft``."""

    @property
    def wire(self) -> str:
        """The module of ``wires`` that says how its server answers."""

    @property
    def greeting(self) -> str:
        """What ``GET /`` answers."""

    @property
    def blocking(self) -> bool:
        """Whether calls may take longer than a millisecond or two, so that the shell runs them in threads, under a deadline."""

    @property
    def task_count(self) -> int:
        """Tasks are numbered from 0 to ``task_count - 1``."""

    def open(self) -> Session:
        """A session that has not been reset yet."""

    def close(self) -> None:
        """Release what the sessions share; called once, when the server ends, after the last session was closed."""
