"""``agentgym probe``: serve or find the servers, run the named checks, say what was found."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.probe import ProbeReport, probe
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.parts import dialect_path
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.tasks import select_tasks
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.schedules import tasks_of
from agentgym_cli.verbs.world import pinned, service_token, serving


def probe_servers(recipe: str | None, overrides: Sequence[str], urls: Sequence[str], dialect: str | None, *, progress: Progress) -> ProbeReport:
    """Probe the servers of a recipe, or running ones by URL and dialect. Raises RecipeError when neither or both are named."""
    if recipe is None and not (urls and dialect):
        raise RecipeError("probe: expected a recipe, or --url and --dialect, got neither", "agentgym probe --url URL --dialect textcraft")
    if recipe is not None and (urls or dialect):
        raise RecipeError("probe: expected a recipe or --url and --dialect, got both", "set env.urls=[URL] as an override of the recipe")
    if recipe is None:
        assert dialect is not None
        work = probe(list(urls), load_dialect(dialect))
    else:
        work = _probe_recipe(recipe, overrides, progress)
    return run_interruptible(work, "run it again")


async def _probe_recipe(recipe: str, overrides: Sequence[str], progress: Progress) -> ProbeReport:
    resolved = resolve(recipe, overrides)
    run = resolved.run
    dialect = load_dialect(dialect_path(run.env.dialect, beside=resolved.folders))
    rows = select_tasks(run.tasks, env=dialect.name, beside=resolved.folders).rows()
    async with serving(run.env, oracle=True, progress=progress) as urls:
        return await probe(urls, dialect, tasks=pinned(tasks_of(rows, env=dialect.name, split="")), token=service_token(run.env))
