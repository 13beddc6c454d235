"""Runs the checks against live servers, all servers at once. A bad server gives results, never an exception."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Literal

import httpx

from agentgym_cli.env.checks import CHECKS, Check
from agentgym_cli.env.contract import EnvFailure
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.dialect_schema import CheckName
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.findings import Bench, Effort, NotApplicable, NotMet
from agentgym_cli.env.wire import build_http

log = logging.getLogger(__name__)

Level = Literal["quick", "full"]
Result = Literal["pass", "fail", "n/a", "known deviation"]

EFFORT: dict[Level, Effort] = {
    "quick": Effort(rounds=20, seconds=2.0, tasks=4, pinned_tasks=32, timed_steps=50),
    "full": Effort(rounds=200, seconds=30.0, tasks=16, pinned_tasks=100_000, timed_steps=1000),
}
CHECK_SECONDS = 120.0
"""Deadline of one check, whatever its calls may take."""
_ANY_TASKS = tuple((index, "") for index in range(4))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What one check found."""

    name: str
    result: Result
    detail: str
    """One line; holds text of the server's, never trusted."""
    seconds: float


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
    level: Level = "quick",
    call_seconds: float = 10.0,
    token: str | None = None,
    http: httpx.AsyncClient | None = None,
) -> ProbeReport:
    """Check every server against a dialect.

    Args:
        tasks: number and digest ('' where there is none) of tasks that a run will use; without any, tasks 0 to 3, unpinned.
        call_seconds: deadline of each call.
        http: used and left open; None makes one for the time of the probe.

    Raises:
        RecipeError: a URL is none. A server that is bad in whatever way is a result.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(build_http()) if http is None else http
        endpoints = [Endpoint(client, dialect, url, call_seconds=call_seconds, token=token) for url in urls]
        benches = [Bench(endpoint=endpoint, tasks=tuple(tasks) or _ANY_TASKS, effort=EFFORT[level]) for endpoint in endpoints]
        servers = await asyncio.gather(*map(_probe_server, benches))
    return ProbeReport(dialect=dialect.name, level=level, servers=tuple(servers))


async def _probe_server(bench: Bench) -> ServerReport:
    results: list[CheckResult] = []
    blocked: dict[CheckName, CheckName] = {}
    for name, (check, needs) in CHECKS.items():
        cause = next((blocked[need] for need in needs if need in blocked), None)
        if cause is not None:
            blocked[name] = cause
            results.append(CheckResult(name=name, result="n/a", detail=f"not run, since {cause} failed", seconds=0.0))
            continue
        results.append(await _run(name, check, bench))
        if results[-1].result == "fail":
            blocked[name] = name
    return ServerReport(url=bench.endpoint.url, checks=tuple(results))


async def _run(name: CheckName, check: Check, bench: Bench) -> CheckResult:
    began = time.monotonic()
    result, detail = await _judged(name, check, bench)
    return CheckResult(name=name, result=result, detail=detail, seconds=time.monotonic() - began)


async def _judged(name: CheckName, check: Check, bench: Bench) -> tuple[Result, str]:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return "pass", await check(bench)
    except NotApplicable as reason:
        return "n/a", str(reason)
    except NotMet as finding:
        known = bench.spec.deviations.get(name)
        return ("fail", str(finding)) if known is None else ("known deviation", f"{finding} ({known})")
    except EnvFailure as failure:
        return "fail", f"{failure.cause.value}: {failure}"
    except TimeoutError:
        return "fail", f"expected an end within {CHECK_SECONDS:g} s, got none"
    except Exception as err:
        log.exception("check %s of %s", name, bench.endpoint.url)
        return "fail", f"the check itself failed: {type(err).__name__}: {str(err)[:200]!r}"
