"""``agentgym probe``: serve or find the servers, run the named checks, say what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.env.checks import Level, checks_of
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.probe import ProbeReport, probe
from agentgym_cli.episode.policies.build import service_key
from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.parts import dialect_path
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.tasks import select_tasks
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.schedules import tasks_of
from agentgym_cli.verbs.target import require_recipe
from agentgym_cli.verbs.world import pinned, service_token, serving

_LONGEST_IDLE = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """What to probe: the servers of a recipe, or running ones by URL and dialect."""

    recipe: str | None = None
    overrides: Sequence[str] = ()
    urls: Sequence[str] = ()
    dialect: str | None = None
    level: Level = "quick"
    idle_seconds: float = 60.0
    """How long level soak leaves a session alone."""
    token_variable: str | None = None
    """Environment variable with the bearer token of servers that are named by URL."""
    files: Sequence[Path | None] = ()
    """Where results will be written, as far as anywhere."""


def probe_servers(request: ProbeRequest, *, progress: Progress) -> ProbeReport:
    """Probe the servers of a recipe, or running ones.

    Raises:
        RecipeError: neither or both are named, or a URL, the dialect or the recipe cannot be meant.
        PolicyError: the variable with the token is not set.
        StoreError: a file of results could not be written.
    """
    by_url = bool(request.urls or request.dialect or request.token_variable)
    if request.recipe is None and not (request.urls and request.dialect):
        raise RecipeError("probe: expected a recipe, or --url and --dialect, got neither", "agentgym probe --url URL --dialect textcraft")
    if request.recipe is not None and by_url:
        hint = "set env.urls=[URL] or env.token_variable=NAME as an override of the recipe"
        raise RecipeError("probe: expected a recipe, or --url, --dialect and --token-variable, got both", hint)
    if not 0 < request.idle_seconds <= _LONGEST_IDLE:
        raise RecipeError(f"--idle-seconds: expected seconds above 0 and at most {_LONGEST_IDLE:g}, got {request.idle_seconds:g}")
    for path in request.files:
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise StoreError(f"{path}: expected the name of a file in a folder that exists, got none", "choose another place")
    work = _probe_urls(request, progress) if request.recipe is None else _probe_recipe(request.recipe, request, progress)
    try:
        return run_interruptible(work, "run it again")
    finally:
        progress.end()


async def _probe_urls(request: ProbeRequest, progress: Progress) -> ProbeReport:
    assert request.dialect is not None
    dialect, name = load_dialect(request.dialect), request.token_variable
    token = None if name is None else service_key(name, where="--token-variable")
    told = _counting(request, len(request.urls), progress)
    return await probe(list(request.urls), dialect, level=request.level, idle_seconds=request.idle_seconds, token=token, told=told)


async def _probe_recipe(recipe: str, request: ProbeRequest, progress: Progress) -> ProbeReport:
    require_recipe(recipe, "probe")
    resolved = resolve(recipe, request.overrides)
    run = resolved.run
    dialect = load_dialect(dialect_path(run.env.dialect, beside=resolved.folders))
    rows = select_tasks(run.tasks, env=dialect.name, beside=resolved.folders).rows()
    token = service_token(run.env)
    async with serving(run.env, oracle=True, progress=progress) as urls:
        return await probe(
            urls,
            dialect,
            tasks=pinned(tasks_of(rows, env=dialect.name, split="")),
            size=run.tasks.size,
            concurrency=run.engine.slots,
            level=request.level,
            call_seconds=run.budgets.env_call_seconds,
            idle_seconds=request.idle_seconds,
            token=token,
            told=_counting(request, len(urls), progress),
        )


def _counting(request: ProbeRequest, servers: int, progress: Progress) -> Callable[[str, str], None]:
    """What a probe tells, server and check, as progress."""
    done = 0
    progress.begin(f"{request.level} probe", servers * len(checks_of(request.level)), "check")

    def told(url: str, name: str) -> None:
        nonlocal done
        done += 1
        progress.advance(done, {"last": name})

    return told
