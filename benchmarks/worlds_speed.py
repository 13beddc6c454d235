"""How many steps a second the server of a world answers: wrk on one core, one server process on another.

    python -m benchmarks.worlds_speed textcraft package_prep --clients 1 32 256 --seconds 10
    python -m benchmarks.worlds_speed textcraft -- --book laptop

Each client keeps its connection; there are as many sessions as clients, stepped in turn with the harmless actions of the dialect. Server CPU is by
the server's own clock, with its child processes: ``steps per CPU s`` is what one free core would give. The rows before the worlds have no world
behind them: a bare route and, where fastapi is installed, a route declared as AgentGym's TextCraft server declares its own. The world's share is
the CPU time of the same actions in the world alone, without a server; of child processes, theirs.
Needs Linux, and wrk on the path.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import httpx

from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.launch import serving
from agentgym_envs.arguments import parser
from agentgym_envs.offers import WORLDS

HEADER = (
    "| world | clients | steps/s | p50 ms | p99 ms | server CPU us a step | steps per CPU s | the world's own share | errors |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
START_SECONDS = 90.0
FLOORS = {"(bare route)": ["benchmarks.worlds_floor"], "(declared route)": ["benchmarks.worlds_floor", "declared"]}
"""Servers that do nothing, measured at the same time, so that numbers from a slow or busy machine can be read."""
FLOOR_BODIES = [json.dumps({"id": 0, "action": "inventory"})]
LUA = """
local at, bodies = 0, {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = wrk.format("POST", "%s", {["content-type"] = "application/json"}, line) end
request = function() at = at %% #bodies + 1; return bodies[at] end
done = function(summary, latency)
  local wrong = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.status + summary.errors.timeout
  io.stderr:write(string.format("%%d %%d %%d %%d %%d\\n", summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), wrong))
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run of wrk."""

    world: str
    clients: int
    steps: int
    seconds: float
    p50: float
    """Milliseconds, as p99."""
    p99: float
    cpu: float
    """Seconds of the server and of the processes that it started."""
    alone: float
    """CPU seconds of a step that are the world's."""
    errors: int

    def row(self) -> str:
        """One line of the table."""
        each = self.cpu / self.steps
        return (
            f"| {self.world} | {self.clients} | {self.steps / self.seconds:,.0f} | {self.p50:.2f} | {self.p99:.2f} | {each * 1e6:,.0f} "
            f"| {1 / each:,.0f} | {self.alone / each:.0%} | {self.errors} |"
        )


def main(argv: Sequence[str]) -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description="Steps a second by world and number of clients.")
    arguments.add_argument("worlds", nargs="+", choices=sorted(WORLDS), metavar="WORLD")
    arguments.add_argument("--clients", nargs="+", type=int, default=[1, 32, 256])
    arguments.add_argument("--seconds", type=int, default=10)
    cut = argv.index("--") if "--" in argv else len(argv)
    options, world_args = arguments.parse_args(argv[:cut]), list(argv[cut + 1 :])
    if shutil.which("wrk") is None:
        sys.exit("expected wrk on the path")
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}\n{HEADER}")
    floors = [floor for floor in FLOORS if floor == "(bare route)" or find_spec("fastapi") is not None]
    for world in [*floors, *options.worlds]:
        for clients in options.clients:
            print(asyncio.run(measured(world, world_args, clients, options.seconds)).row(), flush=True)


async def measured(world: str, world_args: Sequence[str], clients: int, seconds: int) -> Measured:
    """One world with one number of clients."""
    dialect = load_dialect("textcraft" if world in FLOORS else world)
    cores = sorted(os.sched_getaffinity(0))
    module = FLOORS.get(world, ["agentgym_envs", world, "--port", "0", "--exit-with-parent", *world_args])
    command = ["taskset", "-c", str(cores[0]), sys.executable, "-m", *module]
    async with serving([command], name=world, start_seconds=START_SECONDS) as (url,), httpx.AsyncClient(timeout=60) as http:
        (server,) = children(os.getpid())
        bodies = FLOOR_BODIES if world in FLOORS else await step_bodies(Endpoint(http, dialect, url, call_seconds=60), dialect, clients)
        before, before_apart = cpu_of(server), sum(map(cpu_of, children(server)))
        steps, taken, p50, p99, errors = await run_wrk(url, dialect, bodies, clients, seconds, core=cores[-1])
        cpu, apart = cpu_of(server) - before, sum(map(cpu_of, children(server))) - before_apart
    outside = 0.0 if world in FLOORS else apart / steps
    return Measured(
        world=world,
        clients=clients,
        steps=steps,
        seconds=taken / 1e6,
        p50=p50 / 1e3,
        p99=p99 / 1e3,
        cpu=cpu,
        alone=outside or (0.0 if world in FLOORS else cpu_alone(world, world_args, dialect.spec.probe_actions)),
        errors=errors,
    )


async def step_bodies(endpoint: Endpoint, dialect: Dialect, clients: int) -> list[str]:
    """The bodies of one step in each of as many sessions as clients, for each action."""
    spec, sessions = dialect.spec, []
    for place in range(clients):
        sessions.append(await endpoint.create())
        await endpoint.reset(sessions[-1], place % 40)
    field = spec.routes.step.action_field
    return [json.dumps({spec.session.field: session, field: action}) for action in spec.probe_actions for session in sessions]


async def run_wrk(url: str, dialect: Dialect, bodies: Sequence[str], clients: int, seconds: int, *, core: int) -> list[int]:
    """Requests, microseconds, p50 and p99 in microseconds, errors."""
    path = dialect.spec.routes.step.call.removeprefix("POST ")
    with tempfile.TemporaryDirectory() as folder:
        lua, lines = written(folder, "step.lua", LUA % path), written(folder, "bodies", "\n".join(bodies))
        command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "-s", lua, url]
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, "BODIES": lines}, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        said = (await process.communicate())[1].decode()
    if process.returncode or not said.strip():
        sys.exit(f"wrk: {said}")
    return [int(number) for number in said.splitlines()[-1].split()]


def written(folder: str, name: str, text: str) -> str:
    """The path of a new file."""
    path = Path(folder, name)
    path.write_text(text, encoding="utf-8")
    return str(path)


def children(pid: int) -> list[int]:
    """Processes that a process started."""
    return [int(each) for task in Path(f"/proc/{pid}/task").glob("*/children") for each in task.read_text().split()]


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far, with those of the processes that it started and that still run."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_of, children(pid)))


def cpu_alone(world: str, world_args: Sequence[str], actions: Sequence[str]) -> float:
    """CPU seconds of one step in the world, without a server."""
    made = WORLDS[world].build(parser().parse_args([world, *world_args]))
    session = made.open()
    session.reset(0)
    started, count = time.process_time(), 0
    while time.process_time() - started < 0.5 and count < 20_000:
        for action in actions:
            session.step(action)
        count += len(actions)
    spent = (time.process_time() - started) / count
    session.close()
    made.close()
    return spent


if __name__ == "__main__":
    main(sys.argv[1:])
