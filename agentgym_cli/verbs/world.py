"""The environment of a run: served or found, probed, and a client over all its replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from agentgym_cli.env.breaker import BreakerRule
from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import EnvFailure
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.identity import greetings
from agentgym_cli.env.keeper import kept
from agentgym_cli.env.launch import Fleet, fleet
from agentgym_cli.env.probe import ProbeReport, probe
from agentgym_cli.env.replicas import ServerChange
from agentgym_cli.env.rollcall import absent
from agentgym_cli.episode.policies.build import service_key
from agentgym_cli.episode.types import Task
from agentgym_cli.errors import EnvError, RecipeError
from agentgym_cli.recipe.schema.world import BudgetsSpec, EnvSpec, RetrySpec
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Servers that have passed the probe, and the client that opens sessions on them."""

    urls: tuple[str, ...]
    client: HttpEnvClient
    observed: Mapping[str, str]
    """What the servers say they are, as a frozen run keeps it."""


@asynccontextmanager
async def serving(env: EnvSpec, *, oracle: bool, progress: Progress) -> AsyncIterator[tuple[str, ...]]:
    """URLs of the replicas that a recipe names, or of servers started for as long as the block runs."""
    if env.urls is not None:
        yield env.urls
        return
    async with _own(env, oracle=oracle, progress=progress) as servers:
        yield servers.urls


@asynccontextmanager
async def _own(env: EnvSpec, *, oracle: bool, progress: Progress) -> AsyncIterator[Fleet]:
    if env.world is None:
        raise RecipeError("env: expected urls, or world to serve one, got neither", "set env.urls to running servers, or env.world")
    async with fleet(env.world, env.world_args, replicas=env.replicas, oracle=oracle) as servers:
        progress.note("servers", f"{env.world} at {', '.join(servers.urls)}")
        yield servers


@asynccontextmanager
async def open_world(
    env: EnvSpec,
    dialect: Dialect,
    budgets: BudgetsSpec,
    retry: RetrySpec,
    tasks: Sequence[Task],
    *,
    slots: int,
    oracle: bool,
    recorder: Recorder,
    progress: Progress,
) -> AsyncIterator[World]:
    """Serve or find the environment, probe it and record what was found. Raises EnvError when a check failed.

    Args:
        slots: most episodes at once.
    """
    token = service_token(env)
    async with AsyncExitStack() as stack:
        own = await stack.enter_async_context(_own(env, oracle=oracle, progress=progress)) if env.urls is None else None
        urls = own.urls if own is not None else env.urls or ()
        gone = await _absent(urls, dialect, budgets, token)
        there = [url for url in urls if url not in gone]
        report = await probe(there, dialect, tasks=pinned(tasks), concurrency=slots, call_seconds=budgets.env_call_seconds, token=token)
        record_probe(report, recorder, progress)
        observed = await observe(env, urls, dialect, token=token)
        client = HttpEnvClient(
            build_http(),
            dialect,
            urls,
            call_seconds=budgets.env_call_seconds,
            token=token,
            rule=BreakerRule(failures=retry.give_up_after, pause=retry.pause_seconds, longest=retry.longest_pause_seconds),
            recovery_seconds=retry.recovery_seconds,
            on_change=lambda change: _changed(change, recorder, progress),
        )
        stack.push_async_callback(client.aclose)
        for url, failure in gone.items():
            recorder.probed(url, "health", "fail", failure.message, 0.0)
            client.give_up(url, failure.cause, failure.message, pause=retry.pause_seconds)
        if own is not None:
            await stack.enter_async_context(kept(own, client))
        yield World(urls=urls, client=client, observed=observed)


async def _absent(urls: Sequence[str], dialect: Dialect, budgets: BudgetsSpec, token: str | None) -> dict[str, EnvFailure]:
    """Servers that a run starts without, since others are there. Where none is, there are none: the probe says what is wrong with all of them."""
    gone = await absent(urls, dialect, seconds=budgets.env_call_seconds, token=token) if len(urls) > 1 else {}
    return gone if len(gone) < len(urls) else {}


def _changed(change: ServerChange, recorder: Recorder, progress: Progress) -> None:
    """Write down that a server was given up or taken back, and say it."""
    recorder.server_changed(change)
    if change.event == "closed":
        progress.note("servers", f"{change.url} answers again and takes episodes")
    else:
        progress.warn(f"{change.url} does not answer and gets no new episode until it does: {change.detail}")


async def observe(env: EnvSpec, urls: Sequence[str], dialect: Dialect, *, token: str | None) -> dict[str, str]:
    """What servers say they are: by URL, or under ``env.world`` where this program serves them, since their ports mean nothing later.

    Args:
        urls: none where a world is not served yet.
    """
    said = await greetings(urls, dialect, token=token)
    if env.urls is not None:
        return said
    served = f"served by this program: {' '.join((str(env.world), *env.world_args))}"
    return {"env.world": "; ".join([served, *sorted(set(said.values()))])}


def pinned(tasks: Sequence[Task]) -> list[tuple[int, str]]:
    """Number and digest of each task, as the probe takes them; it looks at as many as its level says, evenly spread."""
    return [(task.index, task.digest) for task in tasks]


def record_probe(report: ProbeReport, recorder: Recorder, progress: Progress) -> None:
    """Write every check down and say how it went. Raises EnvError naming the checks that failed."""
    for server in report.servers:
        for check in server.checks:
            recorder.probed(server.url, check.name, check.result, check.detail, check.seconds)
    if not report.ok:
        raise probe_failure(report)
    checks = [check for server in report.servers for check in server.checks]
    passed = sum(check.result == "pass" for check in checks)
    known = sum(check.result == "known deviation" for check in checks)
    progress.note("probe", f"{passed} of {len(checks)} checks pass, {known} known deviations, {len(checks) - passed - known} n/a")


def probe_failure(report: ProbeReport) -> EnvError:
    """The first failed check of a report as an error."""
    url, check = next((server.url, check) for server in report.servers for check in server.failed)
    failed = sum(len(server.failed) for server in report.servers)
    more = f" (and {failed - 1} more failed checks)" if failed > 1 else ""
    return EnvError(f"probe of {url}: {check.name}: {check.detail}{more}", f"agentgym probe --url {url} --dialect {report.dialect} shows every check")


def service_token(env: EnvSpec) -> str | None:
    """The bearer token that a recipe names by its variable, None when it names none. Raises PolicyError when it is not set."""
    return None if env.token_variable is None else service_key(env.token_variable, where="env.token_variable")
