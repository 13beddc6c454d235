"""Simulators for all sessions: a bounded number, used again after a task, replaced when they die or grow old. Knows no task."""

from __future__ import annotations

import threading
from typing import ClassVar

from agentgym_envs.protocol import WorldError
from agentgym_envs.sciworld.java import Runtime
from agentgym_envs.sciworld.simulator import Simulator

MOST_LOADS = 500


class Full(WorldError):
    """As many simulators are in use as may be."""

    kind: ClassVar[str] = "full"


class Pool:
    """Threads share it. A simulator belongs to one session between ``lease`` and ``give_back``."""

    def __init__(self, runtime: Runtime, *, most: int, seconds: float, most_loads: int = MOST_LOADS) -> None:
        """A pool without simulators; they are started when they are asked for.

        Args:
            most: simulators at once.
            seconds: what one question to a simulator may take, its start included.
            most_loads: tasks that one simulator loads before another takes its place.
        """
        self.started = 0
        """Simulators started so far."""
        self._runtime = runtime
        self._most = most
        self._seconds = seconds
        self._most_loads = most_loads
        self._lock = threading.Lock()
        self._idle: list[Simulator] = []
        self._count = 0
        self._closed = False

    def __len__(self) -> int:
        """How many are there, in use or idle."""
        return self._count

    def lease(self) -> Simulator:
        """A simulator for one session: one that is idle, else a new one.

        Raises:
            Full: ``most`` are in use.
            SimulatorLost: a new one did not come up.
        """
        while (simulator := self._reserve()) is not None:
            if simulator.alive:
                return simulator
            self.give_back(simulator)
        try:
            return Simulator(self._runtime, seconds=self._seconds)
        except BaseException:
            self._drop()
            raise

    def give_back(self, simulator: Simulator) -> None:
        """The session needs it no more; one that died or is old is ended, and its place is free."""
        with self._lock:
            if keep := not self._closed and simulator.alive and simulator.loads < self._most_loads:
                self._idle.append(simulator)
        if not keep:
            simulator.end()
            self._drop()

    def close(self) -> None:
        """End those that are idle; those in use end when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for simulator in idle:
            simulator.end()
            self._drop()

    def _reserve(self) -> Simulator | None:
        """An idle one, or None and a place for a new one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            if self._count >= self._most:
                raise Full(
                    f"The server is full: {self._most} simulators are in use. Finish or close sessions, "
                    "play fewer episodes at once, or start the server with a larger --simulators."
                )
            self._count += 1
            self.started += 1
            return None

    def _drop(self) -> None:
        with self._lock:
            self._count -= 1
