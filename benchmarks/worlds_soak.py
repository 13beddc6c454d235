"""What thousands of random episodes leave behind in a world's server: sessions, processes, file handles, memory.

    python -m benchmarks.worlds_soak textcraft package_prep --episodes 10000
    python -m benchmarks.worlds_soak sciworld --episodes 200 --clients 8

Each episode makes a session, resets it to a task drawn at random, takes actions that the dialect's random policy would (a tenth of them made of odd
text), and closes the session; one in a hundred is left open, as by a client that died, and must be swept as idle. The first tenth warms the server
up; memory is compared between then and the end, after all sessions were closed. Then two servers with other PYTHONHASHSEEDs, asked for the same
tasks in other orders, must give the same prompts. Exit code 1 when something was left behind or differed. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.launch import serving
from agentgym_cli.env.wire import build_http
from agentgym_envs.arguments import parser
from agentgym_envs.offers import WORLDS

HEADER = (
    "| world | episodes | turns | turns/s | refused or failed | sessions left | processes left | file handles | memory MB | same prompts |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)
START_SECONDS, CALL_SECONDS, IDLE_SECONDS = 90.0, 120.0, 5.0
MOST_GROWTH = 1.15
"""Memory at the end over memory after the warm-up."""
ODD = ("", " ", "\x1b[2J\x00", "get 1 " + "x" * 3000, "'; drop table turns; --", "<b>ю𝕏</b>", "I shipped the mug", "Action: look\nAction: wait")
LEFT_OPEN = 0.01


@dataclass(slots=True)
class Tally:
    """What was played."""

    turns: int = 0
    failures: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    def failed(self, failure: EnvFailure) -> None:
        """A call that the server refused or failed."""
        self.failures += 1
        reason = str(failure)[:160]
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a server holds."""

    sessions: int
    processes: int
    handles: int
    memory: float
    """Megabytes, with those of its child processes."""


async def main(argv: Sequence[str]) -> int:
    """Soak each world and print its row."""
    arguments = argparse.ArgumentParser(description="What random episodes leave behind.")
    arguments.add_argument("worlds", nargs="+", choices=sorted(WORLDS), metavar="WORLD")
    arguments.add_argument("--episodes", type=int, default=10_000)
    arguments.add_argument("--clients", type=int, default=32)
    arguments.add_argument("--turns", type=int, default=12, help="most turns of an episode")
    cut = argv.index("--") if "--" in argv else len(argv)
    options, world_args = arguments.parse_args(argv[:cut]), list(argv[cut + 1 :])
    print(HEADER)
    return max([await soak(world, world_args, options) for world in options.worlds])


async def soak(world: str, world_args: Sequence[str], options: argparse.Namespace) -> int:
    """One world; 1 when something was left behind or differed."""
    dialect, tally, started = load_dialect(world), Tally(), time.monotonic()
    tasks = min(task_count(world, world_args), 2_000)
    command = [sys.executable, "-m", "agentgym_envs", world, "--port", "0", "--exit-with-parent", "--idle-seconds", str(IDLE_SECONDS), *world_args]
    async with serving([command], name=world, start_seconds=START_SECONDS) as (url,), build_http() as http:
        warm = max(options.clients, options.episodes // 10)
        await play(url, dialect, tally, range(warm), tasks, options)
        await swept(http, url)
        before = await level(http, url)
        await play(url, dialect, tally, range(warm, options.episodes), tasks, options)
        seconds = time.monotonic() - started
        await swept(http, url)
        after = await level(http, url)
    same = await same_prompts(world, world_args, dialect, tasks)
    clean = after.sessions == 0 and after.processes <= before.processes and after.handles <= before.handles + 2
    steady = after.memory <= before.memory * MOST_GROWTH
    print(
        f"| {world} | {options.episodes:,} | {tally.turns:,} | {tally.turns / seconds:,.0f} | {tally.failures} | {after.sessions} "
        f"| {before.processes} -> {after.processes} | {before.handles} -> {after.handles} | {before.memory:.1f} -> {after.memory:.1f} "
        f"| {'yes' if same else 'NO'} |",
        flush=True,
    )
    for reason, count in sorted(tally.reasons.items(), key=lambda each: -each[1])[:5]:
        print(f"  {count} x {reason!r}", file=sys.stderr)
    return 0 if clean and steady and same and not tally.failures else 1


async def play(url: str, dialect: Dialect, tally: Tally, episodes: range, tasks: int, options: argparse.Namespace) -> None:
    """All of the episodes, ``clients`` at a time, over connections that end with them."""
    waiting = iter(episodes)

    async def client(endpoint: Endpoint) -> None:
        for number in waiting:
            await episode(endpoint, dialect, tally, random.Random(number), tasks, options.turns)

    async with build_http() as http:
        endpoint = Endpoint(http, dialect, url, call_seconds=CALL_SECONDS)
        await asyncio.gather(*(client(endpoint) for _ in range(options.clients)))


async def episode(endpoint: Endpoint, dialect: Dialect, tally: Tally, rng: random.Random, tasks: int, turns: int) -> None:
    """One random episode, from create to close."""
    spec = dialect.spec
    try:
        session = await endpoint.create()
        observation = await endpoint.reset(session, rng.randrange(tasks))
        for _ in range(turns):
            said = [*spec.random.always, *spec.random.found(observation)] or list(spec.probe_actions)
            reply = await endpoint.step(session, rng.choice(ODD) if rng.random() < 0.1 else rng.choice(said))
            tally.turns += 1
            if reply.done:
                break
            observation = f"{observation}\n{reply.observation}"[-20_000:]
        if rng.random() >= LEFT_OPEN:
            await endpoint.close(session)
    except EnvFailure as failure:
        if failure.cause is InfraCause.CONNECT:
            raise
        tally.failed(failure)


async def swept(http: httpx.AsyncClient, url: str) -> None:
    """Wait until the server has closed what nobody uses, or has had time enough."""
    for _ in range(int(IDLE_SECONDS * 8)):
        if not await metric(http, url, "agentgym_sessions_open"):
            return
        await asyncio.sleep(0.5)


async def level(http: httpx.AsyncClient, url: str) -> Level:
    """What the server holds now."""
    pid = server_pid()
    family = [pid, *children(pid)]
    return Level(
        sessions=int(await metric(http, url, "agentgym_sessions_open")),
        processes=len(family),
        handles=int(await metric(http, url, "process_open_fds")),
        memory=sum(resident(each) for each in family) / 1e6,
    )


async def metric(http: httpx.AsyncClient, url: str, name: str) -> float:
    """One sample of the server's metrics."""
    text = (await http.get(f"{url}/metrics", timeout=CALL_SECONDS)).text
    return next(sample.value for family in text_string_to_metric_families(text) for sample in family.samples if sample.name == name)


def server_pid() -> int:
    """The child of this process that is the server."""
    (pid,) = [each for each in children(os.getpid(), deep=False) if b"agentgym_envs" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return pid


def children(pid: int, *, deep: bool = True) -> list[int]:
    """Processes that a process started, and those that they did."""
    found = [int(each) for task in Path(f"/proc/{pid}/task").glob("*/children") for each in task.read_text().split()]
    return [*found, *(below for each in found for below in children(each))] if deep else found


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def task_count(world: str, world_args: Sequence[str]) -> int:
    """How many tasks the world has."""
    made = WORLDS[world].build(parser().parse_args([world, *world_args]))
    try:
        return made.task_count
    finally:
        made.close()


async def same_prompts(world: str, world_args: Sequence[str], dialect: Dialect, tasks: int) -> bool:
    """Whether two servers with other hash seeds, asked in other orders, give the same first observations."""
    asked = random.Random(5).sample(range(tasks), min(tasks, 60))
    command = [sys.executable, "-m", "agentgym_envs", world, "--port", "0", "--exit-with-parent", *world_args]
    commands = [["env", f"PYTHONHASHSEED={seed}", *command] for seed in ("1", "2")]
    async with serving(commands, name=world, start_seconds=START_SECONDS) as urls, build_http() as http:
        first, second = [Endpoint(http, dialect, url, call_seconds=CALL_SECONDS) for url in urls]
        return await prompts(first, asked) == await prompts(second, asked[::-1])


async def prompts(endpoint: Endpoint, asked: Sequence[int]) -> dict[int, str]:
    """First observations by task."""
    session = await endpoint.create()
    said = {task: await endpoint.reset(session, task) for task in asked}
    await endpoint.close(session)
    return said


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
