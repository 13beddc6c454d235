"""The fault drill: episodes of known truth through proxies that break what they can, and what the store says of it beside the proxies' ledgers."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agentgym_cli.store.db import rows_of
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.verbs.evaluate import evaluate_policy
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.request import PolicyChoice, Request
from agentgym_envs.package_prep.orders import order_of
from tests.drill.proxy import DOWN, FAULTS, LATE, FaultProxy, Ledger

R = TypeVar("R")
CAUSES = {
    "500": "server_5xx",
    "hang": "timeout",
    "reset": "reset",
    "broken JSON": "protocol",
    "reward as text": "protocol",
    "error in 200": "reported_error",
    DOWN: "reset",
    LATE: "timeout",
}
"""The cause that each fault must be recorded as."""
TASKS = 100
KILL_AT = 2_000
"""Request of the first proxy at which its server is killed."""
LEAST_REFUSED = 20
"""Requests that the dead server's proxy turns away before the server is started again."""
RECIPE = """
name: fault_drill
seed: 1
env: {{dialect: package_prep, urls: {urls}, max_infra_share: 0.05}}
tasks: {{manifest: tasks/package_prep.csv, evaluation: [{{name: test, ids: 0-{last}}}]}}
prompt: {{action_format: react}}
budgets: {{env_call_seconds: {seconds}}}
retry: {{attempts: 3, pause_seconds: 0.2, longest_pause_seconds: 1.0, recovery_seconds: {recovery}}}
policy: {{model: {{path: models/textcraft_laptop, weights: seed}}}}
horizon: {{kind: fixed, turns: 8}}
evaluation: {{policy: random, horizon: 8, samples_per_task: {samples}}}
engine: {{kind: local, stack: cpu, slots: {slots}}}
store: {{runs_dir: runs, database: results.duckdb}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drilled:
    """What was done and what was recorded."""

    ledgers: tuple[Ledger, ...]
    scheduled: int
    outcomes: Mapping[str, int]
    attempts: int
    causes: Mapping[str, int]
    """Attempts by cause, those without one left out."""
    wrong: tuple[str, ...]
    """Scored episodes whose outcome is not the truth."""
    unaffected: int
    """Episodes whose first attempt met no fault."""
    unaffected_successes: int
    unaffected_truth: int
    """Of the unaffected, those whose script solves its task."""
    changes: tuple[tuple[str, str], ...]
    """Servers given up and taken back, as (url, event)."""
    killed_url: str
    left_open: tuple[int, ...]
    """Sessions that each server holds at the end."""
    degraded: str | None
    seconds: float

    def injected(self) -> Counter[str]:
        """Faults that ended attempts, of all proxies."""
        return sum((ledger.met_by_attempts() for ledger in self.ledgers), Counter[str]())

    def expected_causes(self) -> Counter[str]:
        """The causes that these faults must be recorded as."""
        expected: Counter[str] = Counter()
        for fault, count in self.injected().items():
            expected[CAUSES[fault]] += count
        return expected

    def table(self) -> str:
        """Injected against recorded, and what episodes came to."""
        injected, expected = self.injected(), self.expected_causes()
        rows = [f"{'fault':<16}{'injected':>9}   {'cause':<16}{'expected':>9}{'recorded':>9}"]
        shown: set[str] = set()
        for fault in (*FAULTS, DOWN, LATE):
            cause = CAUSES[fault]
            counts = f"{expected[cause]:>9}{self.causes.get(cause, 0):>9}" if cause not in shown else f"{'above':>9}{'above':>9}"
            shown.add(cause)
            rows.append(f"{fault:<16}{injected[fault]:>9}   {cause:<16}{counts}")
        rows.append(f"{'all':<16}{injected.total():>9}   {'':<16}{expected.total():>9}{sum(self.causes.values()):>9}")
        parts = " + ".join(f"{self.outcomes.get(name, 0)} {name}" for name in ("success", "failure", "infra_error", "missing"))
        changes = ", ".join(f"{url} {event}" for url, event in self.changes)
        on_close = sum(count for ledger in self.ledgers for (_, call), count in ledger.injected.items() if call == "close")
        requests, late = sum(ledger.requests for ledger in self.ledgers), sum(ledger.slow for ledger in self.ledgers)
        rows += [
            "",
            f"episodes: {self.scheduled} scheduled = {parts}; {self.attempts} attempts in {self.seconds:.0f} s",
            f"unaffected: {self.unaffected_successes} of {self.unaffected} succeed, {self.unaffected_truth} should; {len(self.wrong)} wrong outcomes",
            f"requests: {requests}, {late} of them late; {on_close} more faults on a close",
            f"servers: {changes or 'none given up'}; sessions left open: {', '.join(map(str, self.left_open))}",
            f"degraded: {self.degraded}",
        ]
        return "\n".join(rows)


def solves(index: int) -> bool:
    """The truth: whether the script of a task solves it."""
    return index % 3 != 0


def script_of(index: int) -> list[str]:
    """Packs, verifies and dispatches what is ordered; or dispatches an empty package."""
    if not solves(index):
        return ["dispatch"]
    packed = order_of(index).packed
    takes = [f"take {name}" for name in dict.fromkeys((*packed, *packed.values()))]
    return [*takes, *(f"pack {thing} in {material}" for thing, material in packed.items()), "verify", "dispatch"]


class Server:
    """``agentgym serve package_prep`` as a process that can be killed and started again on its port."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Start it and wait until it says where it listens."""
        command = [sys.executable, "-m", "agentgym_envs", "package_prep", "--port", str(self.port), "--exit-with-parent"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["url"].rpartition(":")[2])

    def kill(self) -> None:
        """End it as SIGKILL does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def sessions(self) -> int:
        """Sessions that it holds, by its own metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            found = re.search(rb"^agentgym_sessions_open (\d+)", reply.read(), re.MULTILINE)
        assert found is not None
        return int(found[1])


class Rig:
    """Two servers, each behind its proxy, in a thread with a loop of its own; the first server dies and comes back."""

    def __init__(self, *, seed: int, kill_at: int) -> None:
        self.servers = (Server(), Server())
        self.proxies = (
            FaultProxy(self.servers[0].port, seed=seed, kill_at=kill_at, on_kill=self._restart),
            FaultProxy(self.servers[1].port, seed=seed + 1),
        )
        self._loop = asyncio.new_event_loop()
        self._restarts: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.urls = tuple(self._run(proxy.start()) for proxy in self.proxies)

    def arm(self) -> None:
        """From now on requests meet faults."""
        for proxy in self.proxies:
            self._loop.call_soon_threadsafe(setattr, proxy, "armed", True)

    def close(self) -> None:
        """End the proxies, then the servers."""
        for proxy in self.proxies:
            self._run(proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for server in self.servers:
            server.kill()

    def _run(self, work: Coroutine[object, object, R]) -> R:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _restart(self, proxy: FaultProxy) -> None:
        self._restarts.append(self._loop.create_task(self._die_and_come_back(proxy, self.servers[0])))

    async def _die_and_come_back(self, proxy: FaultProxy, server: Server) -> None:
        await asyncio.to_thread(server.kill)
        # No session of the dead server may meet the new one: its calls are turned away, or their answers are still held back.
        await proxy.refused(LEAST_REFUSED)
        await asyncio.to_thread(server.start)
        proxy.down = False


class Arming(Silent):
    """Progress that arms the proxies when the episodes begin, behind the probe."""

    def __init__(self, rig: Rig) -> None:
        super().__init__()
        self._rig = rig

    def begin(self, phase: str, total: int, unit: str, done: int = 0, at_once: int = 1) -> None:
        """The probe is over."""
        self._rig.arm()


@contextmanager
def rig(*, seed: int, kill_at: int) -> Iterator[Rig]:
    """The servers and proxies, for as long as the block runs."""
    made = Rig(seed=seed, kill_at=kill_at)
    try:
        yield made
    finally:
        made.close()


def request_of(folder: Path, urls: Sequence[str], *, episodes: int, slots: int, call_seconds: float, recovery_seconds: float = 60.0) -> Request:
    """The evaluation of the scripts on these servers; recipe, script, runs and store are in ``folder``."""
    script = folder / "script.jsonl"
    script.write_text("".join(json.dumps({"task": f"package_prep_{index}", "actions": script_of(index)}) + "\n" for index in range(TASKS)))
    recipe, last, samples = folder / "fault_drill.yaml", TASKS - 1, episodes // TASKS
    recipe.write_text(RECIPE.format(urls=json.dumps(urls), last=last, seconds=call_seconds, samples=samples, slots=slots, recovery=recovery_seconds))
    policy = PolicyChoice(kind="scripted", script=script)
    return Request(target=str(recipe), overrides=[], runs_dir=folder / "runs", database=folder / "results.duckdb", policy=policy)


def fault_drill(
    folder: Path, *, episodes: int = 2_000, seed: int = 1, slots: int = 128, call_seconds: float = 5.0, kill_at: int = KILL_AT
) -> Drilled:
    """Evaluate the scripts through the real verb and read back what the store has. ``episodes`` is a multiple of the number of tasks."""
    assert episodes % TASKS == 0
    began = time.monotonic()
    with rig(seed=seed, kill_at=kill_at) as made:
        request = request_of(folder, made.urls, episodes=episodes, slots=slots, call_seconds=call_seconds)
        finished = evaluate_policy(request, Arming(made))
        left_open = tuple(server.sessions() for server in made.servers)
    return _read_back(
        folder / "results.duckdb",
        finished.degraded,
        ledgers=tuple(proxy.ledger for proxy in made.proxies),
        killed_url=made.urls[0],
        left_open=left_open,
        seconds=time.monotonic() - began,
    )


def _read_back(
    database: Path, degraded: str | None, *, ledgers: tuple[Ledger, ...], killed_url: str, left_open: tuple[int, ...], seconds: float
) -> Drilled:
    with open_for_reading(database) as connection:
        ended: Sequence[Sequence[object]] = rows_of(connection, "select episode, task_index, outcome from episodes_final")
        firsts = rows_of(
            connection, "select task_index, a.outcome from attempts a join scheduled using (episode) where attempt = 1 and a.outcome <> 'infra_error'"
        )
        causes = {
            str(cause): int(count) for cause, count in rows_of(connection, "select cause, count(*) from attempts where cause is not null group by 1")
        }
        changes = tuple((str(url), str(event)) for url, event in rows_of(connection, "select url, event from servers order by number"))
        [(attempts,)] = rows_of(connection, "select count(*) from attempts")
    truth = {True: "success", False: "failure"}
    return Drilled(
        ledgers=ledgers,
        scheduled=len(ended),
        outcomes=Counter(str(outcome) for _, _, outcome in ended),
        attempts=int(attempts),
        causes=causes,
        wrong=tuple(str(e) for e, index, outcome in ended if outcome in truth.values() and outcome != truth[solves(int(str(index)))]),
        unaffected=len(firsts),
        unaffected_successes=sum(outcome == "success" for _, outcome in firsts),
        unaffected_truth=sum(solves(int(index)) for index, _ in firsts),
        changes=changes,
        killed_url=killed_url,
        left_open=left_open,
        degraded=degraded,
        seconds=seconds,
    )
