"""Runs the checks against live servers, many at once. A bad server gives results, never an exception."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Literal

import httpx

from agentgym_cli.env.checks import Check, Level, checks_of
from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.dialect_schema import CheckName
from agentgym_cli.env.endpoint import Endpoint, refuse_twice
from agentgym_cli.env.findings import Bench, Effort, Found, NotApplicable, NotMet, Rung
from agentgym_cli.env.wire import another_http, build_http

log = logging.getLogger(__name__)

Result = Literal["pass", "fail", "n/a", "known deviation"]

EFFORT: dict[Level, Effort] = {
    "quick": Effort(resets=96, seconds=2.0, tasks=4, pinned_tasks=32, timed_steps=20, nonsense=3, creates=8),
    "full": Effort(resets=1000, seconds=30.0, tasks=16, pinned_tasks=100_000, timed_steps=500, nonsense=10, creates=256, rung_calls=200, cycles=400),
    "soak": Effort(
        resets=3200,
        least_resets=958,
        seconds=600.0,
        tasks=64,
        pinned_tasks=100_000,
        timed_steps=5000,
        nonsense=30,
        creates=10_000,
        rung_calls=2000,
        cycles=5000,
    ),
}
"""958 is the least count of resets that finds a fault of 1 in 320 with 95% probability."""
CHECK_SECONDS: dict[Level, float] = {"quick": 120.0, "full": 600.0, "soak": 3600.0}
"""Deadline of one check, whatever its calls may take."""
SERVERS_AT_ONCE = 32
_MOST_TIMEOUTS = 2
"""Checks that may end in a call's deadline before the others are given up."""
_ANY_TASKS = tuple((index, "") for index in range(4))
_LOST = (InfraCause.CONNECT, InfraCause.RESET)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found."""

    name: str
    result: Result
    detail: str
    """One line; holds text of the server's, never trusted."""
    seconds: float
    rungs: tuple[Rung, ...] = ()
    """Measurements under load, of a check that makes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """What was found at one server."""

    url: str
    checks: tuple[CheckResult, ...]

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.result == "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """What was found at all servers."""

    dialect: str
    level: Level
    servers: tuple[ServerReport, ...]

    @property
    def ok(self) -> bool:
        """True when no check failed anywhere."""
        return not any(server.failed for server in self.servers)


async def probe(
    urls: Sequence[str],
    dialect: Dialect,
    *,
    tasks: Sequence[tuple[int, str]] = (),
    size: int | None = None,
    concurrency: int | None = None,
    level: Level = "quick",
    call_seconds: float = 10.0,
    idle_seconds: float = 60.0,
    token: str | None = None,
    told: Callable[[str, str], None] | None = None,
    http: httpx.AsyncClient | None = None,
) -> ProbeReport:
    """Check every server against a dialect.

    Args:
        tasks: number and digest ('' where there is none) of tasks that a run will use; without any, tasks 0 to 3, unpinned.
        size: how many tasks there are; None where nobody knows.
        concurrency: sessions that the run will have at work at once, for all servers together; None takes what the dialect lets a probe hold.
        call_seconds: deadline of each call.
        idle_seconds: how long level soak leaves a session alone.
        told: gets URL and name of each check that is over.
        http: used and left open; None makes one for the time of the probe.

    Raises:
        RecipeError: a URL is none, or there twice. A server that is bad in whatever way is a result.
    """
    refuse_twice(urls)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(build_http()) if http is None else http
        second = await stack.enter_async_context(another_http(client))
        share = None if concurrency is None else -(-concurrency // len(urls))
        visits = [
            _Visit(
                level=level,
                told=told or _told_nobody,
                bench=Bench(
                    endpoint=Endpoint(client, dialect, url, call_seconds=call_seconds, token=token),
                    twin=Endpoint(second, dialect, url, call_seconds=call_seconds, token=token),
                    place=place,
                    tasks=tuple(tasks) or _ANY_TASKS,
                    size=size,
                    concurrency=share,
                    idle_seconds=idle_seconds,
                    effort=EFFORT[level],
                ),
            )
            for place, url in enumerate(urls)
        ]
        gate = asyncio.Semaphore(SERVERS_AT_ONCE)
        await asyncio.gather(*(visit.alone(gate) for visit in visits))
        for visit in visits:
            visit.bench.others = [other.bench for other in visits if other is not visit]
            await visit.together()
    return ProbeReport(dialect=dialect.name, level=level, servers=tuple(visit.report() for visit in visits))


def _told_nobody(url: str, name: str) -> None:
    """Nobody asked."""


@dataclass(slots=True, kw_only=True)
class _Visit:
    """The checks of one server, in order."""

    level: Level
    bench: Bench
    told: Callable[[str, str], None]
    results: dict[CheckName, CheckResult] = field(default_factory=dict)
    blocked: dict[CheckName, CheckName] = field(default_factory=dict)
    """By check that failed or could not be made, the one that is to blame."""
    timeouts: list[CheckName] = field(default_factory=list)
    lost: str | None = None
    """Why no further check is made."""

    async def alone(self, gate: asyncio.Semaphore) -> None:
        """Make the checks that need no other server."""
        async with gate:
            for name, named in checks_of(self.level).items():
                if name != "replicas":
                    await self._make(name, named.check, named.after)

    async def together(self) -> None:
        """Compare what this server said with what the others did."""
        named = checks_of(self.level)["replicas"]
        await self._make("replicas", named.check, named.after)

    def report(self) -> ServerReport:
        """What was found, in the order of the checks."""
        return ServerReport(url=self.bench.endpoint.url, checks=tuple(self.results[name] for name in checks_of(self.level)))

    async def _make(self, name: CheckName, check: Check, after: Sequence[CheckName]) -> None:
        cause = next((self.blocked[need] for need in after if need in self.blocked), None)
        if cause is not None:
            self.blocked[name] = cause
        if cause is not None or self.lost is not None:
            why = f"not run, since {cause} failed" if cause is not None else f"not run, since {self.lost}"
            self.results[name] = CheckResult(name=name, result="n/a", detail=why, seconds=0.0)
            self.told(self.bench.endpoint.url, name)
            return
        began = time.monotonic()
        result, detail, rungs, infra = await self._judged(name, check)
        self.results[name] = CheckResult(name=name, result=result, detail=detail, seconds=time.monotonic() - began, rungs=rungs)
        self.told(self.bench.endpoint.url, name)
        if result == "fail":
            self.blocked[name] = name
            await self._look_after(name, infra)

    async def _look_after(self, name: CheckName, infra: InfraCause | None) -> None:
        """Give a server up that is gone, or that lets calls hang."""
        if infra is InfraCause.TIMEOUT:
            self.timeouts.append(name)
            if len(self.timeouts) >= _MOST_TIMEOUTS:
                self.lost = f"calls of {' and '.join(self.timeouts)} were not answered in time"
        elif infra in _LOST and name != "health":
            try:
                await self.bench.endpoint.greeting()
            except EnvFailure:
                self.lost = f"the server was gone after {name}"

    async def _judged(self, name: CheckName, check: Check) -> tuple[Result, str, tuple[Rung, ...], InfraCause | None]:
        seconds = CHECK_SECONDS[self.level]
        try:
            async with asyncio.timeout(seconds):
                found = await check(self.bench)
            return ("pass", found.detail, found.rungs, None) if isinstance(found, Found) else ("pass", found, (), None)
        except NotApplicable as reason:
            return "n/a", str(reason), (), None
        except NotMet as finding:
            known = self.bench.spec.deviations.get(name)
            infra = finding.__cause__.cause if isinstance(finding.__cause__, EnvFailure) else None
            if known is None:
                return "fail", str(finding), finding.rungs, infra
            return "known deviation", f"{finding} ({known})", finding.rungs, infra
        except EnvFailure as failure:
            return "fail", f"{failure.cause.value}: {failure}", (), failure.cause
        except TimeoutError:
            return "fail", f"expected an end within {seconds:g} s, got none", (), InfraCause.TIMEOUT
        except Exception as err:
            log.exception("check %s of %s", name, self.bench.endpoint.url)
            return "fail", f"the check itself failed: {type(err).__name__}: {str(err)[:200]!r}", (), None
