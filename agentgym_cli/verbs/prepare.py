"""From a request to a run that may start: resolved, frozen, checked against its lock, with a folder of its own. Starts nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.episode.types import Task
from agentgym_cli.errors import RecipeError, StoreError, TrainerError
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.freeze import Difference, Frozen, check, dialect_path, freeze
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.recipe.lock import compare, enforce, find_lock, read_lock
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import TaskRow, select_tasks
from agentgym_cli.recipe.yaml import read_text
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.request import Request
from agentgym_cli.verbs.schedules import tasks_of

FROZEN_FILE = "frozen.json"
_LARGEST_PROMPT = 64 * 1024
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A frozen run and where it lives."""

    run: Run
    frozen: Frozen
    name: str
    """Name of the run, which is its folder's."""
    folder: Path
    database: Path
    resumed: bool
    drift: str | None
    """How the interpreter differs from the stack's lock, where the recipe takes that as a warning; None when it does not."""
    dialect: Dialect
    train_tasks: tuple[Task, ...]
    evaluation_tasks: Mapping[str, tuple[Task, ...]]

    @property
    def system_prompt(self) -> str:
        """Instructions before the first observation; '' says nothing."""
        if self.run.prompt.system == "none":
            return ""
        if self.run.prompt.system is None:
            return self.dialect.system_prompt
        return read_text(find_data(self.run.prompt.system, beside=self.frozen.beside, where="prompt.system"), _LARGEST_PROMPT)

    def resume_command(self, verb: str) -> str:
        """What to type to go on with this run."""
        store = "" if self.database == Path(self.run.store.database) else f" --store {self.database}"
        return f"agentgym {verb} {self.folder} --resume{store}"

    @property
    def model_folder(self) -> Path:
        """Folder of the model's files."""
        return find_data(self.run.policy.model.path, beside=self.frozen.beside, where="policy.model.path")

    @property
    def tokenizer_folder(self) -> Path:
        """Folder of the tokenizer's files, the model's own where the recipe names no other."""
        name = self.run.policy.model.tokenizer
        return self.model_folder if name is None else find_data(name, beside=self.frozen.beside, where="policy.model.tokenizer")


def prepare(request: Request, *, verb: Literal["train", "eval"], progress: Progress) -> Prepared:
    """Resolve or read what is asked for, freeze it, compare its lock and choose its folder. Says what was chosen and why.

    Raises:
        RecipeError: the recipe, the frozen run or what changed since it was frozen.
        LockError: the interpreter is not what the lock says and the recipe calls that an error.
    """
    frozen, folder = _frozen(request, verb)
    run = frozen.run
    progress.note("recipe", f"{run.name} ({frozen.recipe})")
    progress.note("profile", f"{run.profile}: {run.profile_reason}")
    for warning in frozen.warnings:
        progress.warn(warning)
    drift = enforce(compare(read_lock(find_lock(run.engine.stack))), run.engine.drift)
    if drift:
        progress.warn(drift)
    dialect = load_dialect(dialect_path(run.env.dialect, beside=frozen.beside))
    lists = select_tasks(run.tasks, beside=frozen.beside)
    home = folder or _new_folder(run, frozen.digest, request.runs_dir or Path(run.store.runs_dir))
    progress.note("digest", frozen.digest)
    progress.note("run", str(home))
    return Prepared(
        run=run,
        frozen=frozen,
        name=home.name,
        folder=home,
        database=request.database or Path(run.store.database),
        resumed=folder is not None,
        drift=drift,
        dialect=dialect,
        train_tasks=tasks_of(lists.train, env=dialect.name, split=_train_split(lists.train)),
        evaluation_tasks={name: tasks_of(rows, env=dialect.name, split=name) for name, rows in lists.evaluation.items()},
    )


def create_folder(prepared: Prepared) -> None:
    """Make a new run's folder and put its frozen run there. Raises StoreError when it cannot be made or exists."""
    try:
        prepared.folder.mkdir(parents=True)
        prepared.frozen.write(prepared.folder / FROZEN_FILE)
    except OSError as err:
        raise StoreError(
            f"{prepared.folder}: expected to make the run's folder, got: {err.strerror or err}", "choose another place: --runs-dir DIR"
        ) from err


def resolve_target(target: str, overrides: Sequence[str]) -> Frozen:
    """A recipe frozen now, or a frozen run read back and checked. Raises RecipeError."""
    if target.endswith(".json"):
        return _unchanged(read_frozen(find_data(target, where="frozen run")), overrides, target)
    resolved = resolve(target, overrides)
    if resolved.run.engine.kind != "local":
        raise TrainerError(
            f"engine {resolved.run.engine.kind}: this version runs the local engine only, and profile {resolved.run.profile} asks for another",
            "name a profile of the local engine, e.g. profile=laptop",
        )
    return freeze(resolved)


def _frozen(request: Request, verb: str) -> tuple[Frozen, Path | None]:
    """What to run, and the folder it already has."""
    folder = Path(request.target)
    if (folder / FROZEN_FILE).is_file():
        if not request.resume:
            raise RecipeError(f"{folder}: expected a recipe, got the folder of a run", f"agentgym {verb} {folder} --resume continues it")
        if request.runs_dir is not None:
            raise RecipeError("--runs-dir: expected nothing, since a resumed run stays in its folder", f"agentgym {verb} {folder} --resume")
        return _unchanged(read_frozen(folder / FROZEN_FILE), request.overrides, str(folder)), folder
    if request.resume:
        raise RecipeError(f"{request.target}: expected the folder of a run, with {FROZEN_FILE} in it", f"agentgym {verb} runs/NAME --resume")
    return resolve_target(request.target, request.overrides), None


def _unchanged(frozen: Frozen, overrides: Sequence[str], where: str) -> Frozen:
    """Refuse a frozen run whose files are no longer what they were."""
    if overrides:
        raise RecipeError(f"{where}: expected no overrides of a frozen run, got {overrides[0]!r}", "give overrides with the recipe instead")
    changed = check(frozen)
    if changed:
        raise RecipeError(
            f"{where}: expected the files that the run was frozen with, digest {frozen.digest[:12]}; {_named(changed)}",
            "go back to those files, or start a new run from the recipe",
        )
    return frozen


def _named(changed: Sequence[Difference]) -> str:
    first = ", ".join(each.key for each in changed[:5])
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return f"changed since: {first}{more}"


def _new_folder(run: Run, digest: str, runs_dir: Path) -> Path:
    """A folder named by recipe, profile, time and digest; the time makes it new, a number settles a tie."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = f"{run.name}-{run.profile}-{stamp}-{digest[:6]}"
    assert _RUN_NAME.fullmatch(name), "names of recipes and profiles are checked by the schema"
    taken = (runs_dir / name, *(runs_dir / f"{name}-{number}" for number in range(2, 1000)))
    return next(folder for folder in taken if not folder.exists())


def _train_split(rows: Sequence[TaskRow]) -> str:
    return rows[0].split if rows else ""
