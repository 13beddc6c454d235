"""``agentgym recipe pin``: a manifest of a recipe's tasks, made of what its servers answer now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.env.probe import probe
from agentgym_cli.env.survey import Content, survey
from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.manifest import TaskRow, manifest_text
from agentgym_cli.recipe.parts import dialect_path
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import NOT_PINNED, TaskLists, select_tasks
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.world import probe_failure, service_token, serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A manifest."""

    rows: tuple[TaskRow, ...]
    """Each task once, in the order of the recipe's lists."""
    text: str
    """The same as CSV."""
    output: Path | None
    """Where it was written; None when nowhere."""


def pin_tasks(recipe: str, overrides: Sequence[str], output: Path | None, *, progress: Progress) -> Pinned:
    """Ask the servers of a recipe for the first observation of each task of its splits, and write what they are to a new file.

    Raises:
        RecipeError: the recipe, or its lists.
        EnvError: a server failed, is not what the dialect describes, or words a task otherwise each time.
        StoreError: the file exists, or cannot be written.
    """
    if output is not None and output.exists():
        raise _exists(output)
    resolved = resolve(recipe, overrides)
    dialect = load_dialect(dialect_path(resolved.run.env.dialect, beside=resolved.folders))
    lists = select_tasks(resolved.run.tasks, env=dialect.name, beside=resolved.folders)
    for warning in (*resolved.warnings, *lists.warnings):
        if warning != NOT_PINNED:
            progress.warn(warning)
    contents = run_interruptible(_ask(resolved.run, dialect, lists, progress), "run it again; nothing was written")
    rows = _rows(lists, contents)
    if len(rows) < len(lists.rows()):
        progress.warn("some tasks are in several splits, and a manifest names one: select these splits by ids or file, not by name alone")
    pinned = Pinned(rows=rows, text=manifest_text(rows), output=output)
    if output is not None:
        _write(output, pinned.text)
    return pinned


async def _ask(run: Run, dialect: Dialect, lists: TaskLists, progress: Progress) -> dict[int, Content]:
    """Content of every task, from servers that pass the probe."""
    tasks = list(dict.fromkeys(row.index for row in lists.rows()))
    token = service_token(run.env)
    async with AsyncExitStack() as stack:
        urls = await stack.enter_async_context(serving(run.env, oracle=False, progress=progress))
        report = await probe(urls, dialect, tasks=[(task, "") for task in tasks], call_seconds=run.budgets.env_call_seconds, token=token)
        if not report.ok:
            raise probe_failure(report)
        client = HttpEnvClient(build_http(), dialect, urls, call_seconds=run.budgets.env_call_seconds, token=token)
        stack.push_async_callback(client.aclose)
        progress.begin("pin", 2 * len(tasks), "answer")
        stack.callback(progress.end)
        return await survey(client, dialect.spec, tasks, attempts=run.retry.attempts, advance=lambda done: progress.advance(done, {}))


def _rows(lists: TaskLists, contents: Mapping[int, Content]) -> tuple[TaskRow, ...]:
    """Each task once, with the first split that names it; what the recipe's own manifest says beside is kept."""
    made: dict[int, TaskRow] = {}
    for row in lists.rows():
        content = contents[row.index]
        made.setdefault(row.index, replace(row, goal=content.goal or row.goal, digest=content.digest))
    return tuple(made.values())


def _write(output: Path, text: str) -> None:
    try:
        with output.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError as err:
        raise _exists(output) from err
    except OSError as err:
        raise StoreError(f"{output}: expected to write the manifest, got: {err.strerror or err}", "choose another place with -o") from err


def _exists(output: Path) -> StoreError:
    return StoreError(f"{output}: expected the name of a new file, got one that exists", "choose another name with -o: runs may depend on this one")
