"""What the engine itself costs in each turn: model call, environment call, recording and the load into the store.

    python -m benchmarks.overhead --at-once 64 256 1024

One process serves a chat-completions model and a TextCraft-like environment on the last core, this one plays on the first; both reply at once, so
that what is measured is this side. CPU is user and system time of this process from the first session to the end of the load into DuckDB, over the
turns played; each number of concurrent episodes plays ten times as many episodes of ten turns (1,024: twice as many). Beside it are the same calls
through aiohttp alone, measured just before, since a busy machine makes both dearer. Memory is what the resident set grew by, over the episodes
played, which all stay in memory up to the end of their phase. Linux only.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import platform
import pstats
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import serving
from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.budgets import RunBudget
from agentgym_cli.episode.policies.endpoint import EndpointPolicy
from agentgym_cli.episode.policies.endpoint_call import LlmServer
from agentgym_cli.episode.policies.endpoint_check import Manner
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.types import Outcome, ScheduledEpisode, Task
from agentgym_cli.recipe.schema.world import BudgetsSpec, RetrySpec
from agentgym_cli.store.records import RunRecord
from agentgym_cli.verbs.degraded import InfraShare
from agentgym_cli.verbs.history import EMPTY
from agentgym_cli.verbs.play import Stage
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.recording import utc_now
from benchmarks.overhead_servers import TURNS

HEADER = (
    "| episodes at once | turns | client CPU ms a turn | of it playing | recording | loading | aiohttp alone | turns/s | failures "
    "| KiB an episode |\n|---|---|---|---|---|---|---|---|---|---|"
)


def policy_at(url: str) -> tuple[EndpointPolicy, HttpCaller]:
    """The policy of an evaluation of an endpoint, without the check before a run."""
    constant: dict[str, Json] = {"model": "bench", "temperature": 1.0}
    manner = Manner(model="bench", api="chat", constant=constant, send_seed=True, token_ids=False, drawn=False)
    caller = HttpCaller()
    gate = Gate(requests_per_minute=None, tokens_per_minute=None, in_flight=None)
    server = LlmServer(caller, f"{url}/v1", gate=gate)
    return EndpointPolicy(server, manner, system_prompt="", budgets=BudgetsSpec(), tokens=None, retry_seconds=60.0, give_up_after=8), caller


class Clocked:
    """Adds up the CPU seconds of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, call: Callable[..., None]) -> Callable[..., None]:
        """``call``, timed."""

        def timed(*arguments: object) -> None:
            began = time.thread_time()
            call(*arguments)
            self.seconds += time.thread_time() - began

        return timed


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One number of concurrent episodes."""

    concurrency: int
    episodes: int
    turns: int
    playing: float
    """CPU seconds of everything but recording and loading."""
    recording: float
    loading: float
    wall: float
    failures: int
    grown: int
    """Bytes that the resident set grew by."""

    def row(self, floor: float) -> str:
        """One line of the table, beside the CPU seconds of a turn without an engine."""
        parts = (self.playing, self.recording, self.loading)
        cells = " | ".join(f"{1000 * seconds / self.turns:.2f}" for seconds in (sum(parts), *parts))
        memory, speed = self.grown / self.episodes / 1024, self.turns / self.wall
        return f"| {self.concurrency:,} | {self.turns:,} | {cells} | {1000 * floor:.2f} | {speed:,.0f} | {self.failures} | {memory:.0f} |"


def schedule(count: int) -> list[ScheduledEpisode]:
    """Episodes of a task each."""
    tasks = [Task(id=f"textcraft_{index}", index=index, split="test", category="depth 1", goal="", digest="") for index in range(count)]
    return [ScheduledEpisode(phase="eval", step=0, task=task, sample=0, horizon=TURNS + 5) for task in tasks]


def begin(folder: Path) -> Recorder:
    """A run's journal with what comes before its episodes."""
    recorder = Recorder(folder=folder / "bench", run="bench", segment=1, database=folder / "store.duckdb", keep_tokens="none", progress=Silent())
    run = dict.fromkeys(RunRecord.__dataclass_fields__, "bench") | {"seed": 1}
    recorder.write(RunRecord(**run))  # type: ignore[arg-type]
    recorder.begin_segment(None, utc_now())
    return recorder


async def measured(url: str, concurrency: int, episodes: int) -> Measured:
    """Play, record and load."""
    dialect = load_dialect("textcraft")
    rules = dialect.rules()
    with tempfile.TemporaryDirectory() as name:
        recorder, recording = begin(Path(name)), Clocked()
        for method in ("attempt", "outcome"):
            setattr(recorder, method, recording.around(getattr(recorder, method)))
        client = HttpEnvClient(build_http(), dialect, [url], call_seconds=60.0)
        policy, caller = policy_at(url)
        stage = Stage(
            env=client,
            rules=rules,
            action_rule=rules.actions["react"],
            budgets=BudgetsSpec(),
            retry=RetrySpec(attempts=1),
            run_budget=RunBudget(BudgetsSpec()),
            concurrency=concurrency,
            run_seed=1,
            recorder=recorder,
            history=EMPTY,
            infra=InfraShare(1.0, {}),
            progress=Silent(),
        )
        memory, wall, cpu = resident(), time.perf_counter(), time.process_time()
        results, _ = await stage.play(schedule(episodes), policy, announce=None)
        played, grown = time.process_time() - cpu, resident() - memory
        wall, cpu = time.perf_counter() - wall, time.process_time()
        recorder.load()
        loading = time.process_time() - cpu
        assert recorder.store_trouble is None
        recorder.close()
        await client.aclose()
        await caller.aclose()
    return Measured(
        concurrency=concurrency,
        episodes=episodes,
        turns=sum(len(result.final.turns) for result in results),
        playing=played - recording.seconds,
        recording=recording.seconds,
        loading=loading,
        wall=wall,
        failures=sum(result.final.outcome is not Outcome.SUCCESS for result in results),
        grown=grown,
    )


async def bare(url: str, concurrency: int, episodes: int) -> float:
    """CPU seconds of a turn's two calls through aiohttp alone, with their JSON: what no engine over it can be quicker than."""
    sockets = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=sockets, cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout()) as http:

        async def said(path: str, fields: Json) -> Any:
            async with http.post(url + path, data=orjson.dumps(fields), allow_redirects=False, auto_decompress=False) as response:
                return orjson.loads(await response.read())

        async def episode() -> None:
            session, messages = (await said("/create", {}))["id"], list[Json]()
            observation = (await said("/reset", {"id": session, "data_idx": 1}))["observation"]
            for _ in range(TURNS):
                messages.append({"role": "user", "content": observation})
                text = (await said("/v1/chat/completions", {"model": "bench", "messages": messages}))["choices"][0]["message"]["content"]
                messages.append({"role": "assistant", "content": text})
                observation = (await said("/step", {"id": session, "action": "craft 4 stick using 2 planks"}))["observation"]
            await said("/close", {"id": session})

        async def worker(count: int) -> None:
            for _ in range(count):
                await episode()

        cpu = time.process_time()
        await asyncio.gather(*(worker(episodes // concurrency) for _ in range(concurrency)))
        return (time.process_time() - cpu) / (episodes // concurrency * concurrency * TURNS)


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


async def all_measured(concurrencies: Sequence[int], episodes: int | None) -> None:
    """One row for each number of episodes at once, against one server process."""
    cores = sorted(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(cores[-1]), sys.executable, "-m", "benchmarks.overhead_servers"]
    async with serving([command], name="benchmark servers") as (url,):
        os.sched_setaffinity(0, {cores[0]})
        await measured(url, 8, 16)
        for concurrency in concurrencies:
            played = episodes or concurrency * (2 if concurrency >= 1000 else 10)
            floor = await bare(url, concurrency, played)
            sys.stdout.write((await measured(url, concurrency, played)).row(floor) + "\n")
            sys.stdout.flush()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--at-once", type=int, nargs="+", default=[64, 256, 1024], help="numbers of concurrent episodes")
    parser.add_argument("--episodes", type=int, help="episodes to play for each of them")
    parser.add_argument("--profile", action="store_true", help="print where the time goes, too")
    options = parser.parse_args()
    sys.stdout.write(f"{platform.machine()}, Python {platform.python_version()}\n\n{HEADER}\n")
    work = all_measured(options.at_once, options.episodes)
    if not options.profile:
        asyncio.run(work)
        return
    with cProfile.Profile() as profile:
        asyncio.run(work)
    pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    main()
