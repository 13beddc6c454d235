"""Simulators for tests: what stands for Java, and a small world on it."""

from __future__ import annotations

import select
import stat
import sys
import time
from collections.abc import Sequence
from os import close, pidfd_open
from pathlib import Path

from agentgym_envs.sciworld.java import Runtime
from agentgym_envs.sciworld.pool import Pool
from agentgym_envs.sciworld.tasks import Task
from agentgym_envs.sciworld.world import SciWorld

TASKS = (Task("boil", 0), Task("boil", 1), Task("melt", 0), Task("broken", 0))


def fake_runtime(folder: Path, mode: str = "well") -> Runtime:
    """A runtime whose Java is the fake, in one of its modes."""
    program = folder / "java"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {Path(__file__).with_name("fake_java.py")} "$@"\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Runtime(str(program), mode, folder)


def fake_world(folder: Path, *, most: int = 2, seconds: float = 20.0, most_loads: int = 100, tasks: Sequence[Task] = TASKS) -> SciWorld:
    """A world on fake simulators."""
    return SciWorld(tasks=tuple(tasks), pool=Pool(fake_runtime(folder), most=most, seconds=seconds, most_loads=most_loads))


def children_of(pid: int) -> list[int]:
    """The processes that a process started and that have not ended."""
    return [int(child) for thread in Path(f"/proc/{pid}/task").iterdir() for child in (thread / "children").read_text(encoding="ascii").split()]


def gone(watched: Sequence[int], seconds: float) -> bool:
    """Whether each of the processes behind these descriptors of ``watch`` ends in time."""
    ended = []
    for descriptor in watched:
        ended.append(bool(select.select([descriptor], [], [], seconds)[0]))
        close(descriptor)
    return all(ended)


def watch(pids: Sequence[int]) -> list[int]:
    """A descriptor for each process, which stays its own when the number is used again."""
    return [pidfd_open(pid) for pid in pids]


def wait_until_stopped(pid: int) -> None:
    """Until each thread of a process has taken a SIGSTOP: on a busy machine some answer for a while after it was sent."""
    until = time.monotonic() + 30
    while not all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in Path(f"/proc/{pid}/task").glob("*/stat")):
        assert time.monotonic() < until, f"process {pid} does not stop"
        time.sleep(0.01)
