"""One simulator: a Java process of its own, what it is asked, and its end. Knows no session and no task list."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from agentgym_envs.protocol import ORACLE_CALLS
from agentgym_envs.sciworld.gateway import Gateway, GatewayError, JavaError, Late, Reference, Value
from agentgym_envs.sciworld.java import Runtime

T = TypeVar("T")

_INTERFACE = "scienceworld.runtime.pythonapi.PythonInterface"
_OPTIONS = (
    # One thread works in it at a time, so that a parallel collector would only hold memory; its own data in /tmp outlives a kill.
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:ErrorFile=/dev/null",
    # Compiling further takes more processor time than tasks of a hundred actions give back.
    "-XX:TieredStopAtLevel=1",
    # A heap of 128 MB does not hold the longest gold path.
    "-Xmx512m",
    "-Xmn24m",
    "-XX:MinHeapFreeRatio=20",
    "-XX:MaxHeapFreeRatio=40",
    # Sets of things are listed, and searched, by their identity hashes, which count up with all that a process did before. Equal ones leave the order
    # in which things were put there.
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
_LOADS_PER_COLLECTION = 4
"""Java would let the remains of some fifty tasks grow to the whole heap before it looks at them; 27 MB are alive."""
_END_SECONDS = 5.0


class SimulatorLost(Exception):
    """The process died, hung or stopped making sense. It has been killed."""


class SimulatorLate(SimulatorLost):
    """It did not answer before its deadline."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What the simulator says to an action."""

    observation: str
    score: int
    """0 to 100, and negative where the task was made impossible."""
    completed: bool
    moves: int
    """Since the task was loaded."""


class Simulator:
    """Calls never interleave. A call that takes longer than ``seconds`` costs the process its life."""

    def __init__(self, runtime: Runtime, *, seconds: float) -> None:
        """Start it, which takes a second or more; SimulatorLost where it does not come up. A gold path has ``ORACLE_CALLS`` times the ``seconds``."""
        self._seconds = seconds
        self.loads = 0
        """Tasks loaded so far."""
        self._process = subprocess.Popen(
            [runtime.java, *_OPTIONS, "-cp", runtime.classpath, "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"],
            cwd=runtime.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C in a terminal is for the server, which ends its simulators in order. Whatever ends the server closes their standard input.
            start_new_session=True,
        )
        self._gateway: Gateway | None = None
        try:
            self._gateway = self._connected()
            self._object = self._gateway.make(_INTERFACE, deadline=self._deadline())
        except (GatewayError, JavaError) as err:
            self.kill()
            raise _lost_by(err, "The simulator did not start") from err

    @property
    def pid(self) -> int:
        """Of the Java process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def load(self, task: str, variation: int, *, gold: bool = False) -> str:
        """Start a variation of a task, with a gold path worked out first where ``gold`` says so; the task's description."""
        self.loads += 1
        self._call("load", task, variation, "", gold, seconds=ORACLE_CALLS * self._seconds if gold else self._seconds)
        if gold or self.loads % _LOADS_PER_COLLECTION == 0:
            self._guarded(lambda gateway, deadline: gateway.call("z:java.lang.System", "gc", deadline=deadline))
        return str(self._call("getTaskDescription"))

    def act(self, action: str) -> Moved:
        """Execute one action."""
        observation = str(self._call("step", action))
        score, completed, moves = self._call("getScore"), self._call("getCompleted"), self._call("getNumMoves")
        if not isinstance(score, float) or not isinstance(moves, int):
            raise self._lost(GatewayError(f"expected a score and moves, got {score!r} and {moves!r}"))
        return Moved(observation, round(100 * score), completed is True, moves)

    def gold(self) -> tuple[str, ...]:
        """The actions of the gold path that ``load`` worked out."""
        return self._lines("getGoldActionSequence")

    def possible_actions(self) -> tuple[str, ...]:
        """Forms of actions, with OBJ for an object."""
        return self._lines("getPossibleActions")

    def possible_objects(self) -> tuple[str, ...]:
        """Names of what can be seen."""
        return self._lines("getPossibleObjects")

    def progress(self) -> str:
        """Which goals were reached, as the simulator prints it."""
        return str(self._call("getGoalProgressStr"))

    def variations(self, task: str) -> int:
        """How many variations a task has."""
        return int(str(self._call("getTaskMaxVariations", task)))

    def end(self) -> None:
        """End the process: in order, or by force where it does not obey."""
        if self._gateway is not None:
            self._gateway.close()
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the process by force."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        if self._gateway is not None:
            self._gateway.close()

    def _connected(self) -> Gateway:
        deadline = self._deadline()
        said = self._first_lines(deadline)
        if len(said) != 2 or not said[0].isdigit():
            raise GatewayError(f"expected a port and a secret, got {said!r:.200}")
        gateway = Gateway(int(said[0]), said[1], deadline=deadline)
        self._silence(gateway, deadline)
        return gateway

    def _first_lines(self, deadline: float) -> list[str]:
        """The port and the secret, which the process prints first, or what it printed in their place before it ended."""
        assert self._process.stdout is not None
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while said.count(b"\n") < 2:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise Late("nothing printed in time")
                part = self._process.stdout.read1(4096)  # type: ignore[attr-defined]
                if not part:
                    break
                said += part
        return said.decode("utf-8", "replace").split()

    def _silence(self, gateway: Gateway, deadline: float) -> None:
        """The simulator prints as it goes; nobody reads it, and a full pipe would stop it."""
        nowhere = gateway.make("java.io.PrintStream", os.devnull, deadline=deadline)
        for method in ("setOut", "setErr"):
            gateway.call("z:java.lang.System", method, nowhere, deadline=deadline)

    def _call(self, method: str, *arguments: str | int | bool, seconds: float | None = None) -> Value | Reference:
        return self._guarded(lambda gateway, deadline: gateway.call(self._object, method, *arguments, deadline=deadline), seconds)

    def _lines(self, method: str) -> tuple[str, ...]:
        return self._guarded(lambda gateway, deadline: gateway.lines(self._object, method, deadline=deadline))

    def _guarded(self, ask: Callable[[Gateway, float], T], seconds: float | None = None) -> T:
        if self._gateway is None or not self.alive:
            raise self._lost(GatewayError("the process has ended"))
        try:
            return ask(self._gateway, self._deadline(seconds))
        except (GatewayError, JavaError) as err:
            raise self._lost(err) from err

    def _lost(self, err: Exception) -> SimulatorLost:
        self.kill()
        return _lost_by(err, "The simulator failed")

    def _deadline(self, seconds: float | None = None) -> float:
        return time.monotonic() + (self._seconds if seconds is None else seconds)


def _lost_by(err: Exception, what: str) -> SimulatorLost:
    return (SimulatorLate if isinstance(err, Late) else SimulatorLost)(f"{what}: {err}")
