"""SciWorld on the command line: its options, whether it can run here, and the world they describe."""

from __future__ import annotations

import argparse

from agentgym_envs.protocol import World
from agentgym_envs.sciworld.java import Unavailable, find_runtime, why_not_java
from agentgym_envs.sciworld.pool import Pool
from agentgym_envs.sciworld.simulator import SimulatorLate, SimulatorLost
from agentgym_envs.sciworld.tasks import list_tasks
from agentgym_envs.sciworld.world import SciWorld

NEEDS = "The package scienceworld (extra envs-sciworld) and a Java runtime, 8 or newer; about 160 MB of memory for each task in play."
_SIMULATORS = 16
_SHARE_OF_CALL = 0.8
"""So that the world's own word on a simulator that hangs comes before the server's."""


def ready() -> str | None:
    """Whether the package and Java are where they are looked for."""
    try:
        find_runtime()
    except Unavailable as err:
        return str(err)
    return None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that only this world has."""
    parser.add_argument(
        "--simulators",
        type=_positive,
        default=_SIMULATORS,
        metavar="N",
        help=f"Java processes of this server at most, one for each task in play; each replica has as many (default: {_SIMULATORS})",
    )


def build(options: argparse.Namespace) -> World:
    """The world, with one simulator that is up; Unavailable (a ValueError) when none comes up."""
    runtime = find_runtime()
    seconds = _SHARE_OF_CALL * options.call_seconds
    pool = Pool(runtime, most=options.simulators, seconds=seconds)
    try:
        simulator = pool.lease()
        tasks = list_tasks(runtime.task_file, simulator.variations)
    except SimulatorLate as err:
        raise Unavailable(f"{err}: {seconds:g} seconds, {_SHARE_OF_CALL:.0%} of --call-seconds; give it more of them") from err
    except SimulatorLost as err:
        said = why_not_java(runtime.java)
        raise Unavailable(f"{err}" + (f"; {runtime.java} -version says: {said}" if said else "")) from err
    pool.give_back(simulator)
    return SciWorld(tasks=tasks, pool=pool)


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text[:40]!r}")
    return int(text)
