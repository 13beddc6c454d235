"""From a request to a run that may start: resolved, frozen, checked against its lock, with a folder of its own. Starts nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from agentgym_cli.env.dialect import Dialect
from agentgym_cli.episode.types import Task
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.freeze import Frozen
from agentgym_cli.recipe.lock import compare, enforce, find_lock, read_lock
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import TaskRow, select_tasks
from agentgym_cli.recipe.yaml import read_text
from agentgym_cli.store.opening import refuse_unusable
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.request import Request
from agentgym_cli.verbs.schedules import chosen_tasks, tasks_of
from agentgym_cli.verbs.spoken import spoken_dialect
from agentgym_cli.verbs.target import find_target

_LARGEST_PROMPT = 64 * 1024
_SAID = 300
"""Most characters of the lock's drift that are recorded."""
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A frozen run and where it lives."""

    run: Run
    frozen: Frozen
    name: str
    """Name of the run, which is its folder's."""
    folder: Path
    """Of a new run, the folder that it would like; ``claim_folder`` makes it."""
    database: Path
    resumed: bool
    drift: str | None
    """How the interpreter differs from the stack's lock, where that is no error; None when it does not."""
    allowed: tuple[str, ...]
    """What is not as the run was frozen, and was allowed on the command line; recorded with the segment and shown in every report."""
    dialect: Dialect
    train_tasks: tuple[Task, ...]
    evaluation_tasks: Mapping[str, tuple[Task, ...]]
    """By split, those that ``evaluation.only`` chooses."""

    @property
    def system_prompt(self) -> str:
        """Instructions before the first observation; '' says nothing."""
        return system_prompt_of(self.run, self.dialect, self.frozen.beside)

    def resume_command(self, verb: str) -> str:
        """What to type to go on with this run."""
        store = "" if self.database == Path(self.run.store.database) else f" --store {shlex.quote(str(self.database))}"
        return f"agentgym {verb} {shlex.quote(str(self.folder))} --resume{store}"

    @property
    def model_folder(self) -> Path:
        """Folder of the model's files."""
        return find_data(self.run.policy.own_model.path, beside=self.frozen.beside, where="policy.model.path")

    @property
    def tokenizer_folder(self) -> Path:
        """Folder of the tokenizer's files, the model's own where the recipe names no other."""
        name = self.run.policy.own_model.tokenizer
        return self.model_folder if name is None else find_data(name, beside=self.frozen.beside, where="policy.model.tokenizer")


def system_prompt_of(run: Run, dialect: Dialect, beside: Sequence[Path]) -> str:
    """Instructions before the first observation, from the recipe's file or the dialect; '' says nothing. Raises RecipeError."""
    if run.prompt.system == "none":
        return ""
    if run.prompt.system is None:
        return dialect.prompt_for(run.prompt.action_format)
    return read_text(find_data(run.prompt.system, beside=beside, where="prompt.system"), _LARGEST_PROMPT)


def prepare(request: Request, *, verb: Literal["train", "eval"], progress: Progress) -> Prepared:
    """Resolve or read what is asked for, freeze it, compare its lock and choose its folder. Says what was chosen and why.

    Raises:
        RecipeError: the recipe, the frozen run or what changed since it was frozen.
        LockError: the interpreter is not what the lock says and the recipe calls that an error.
        StoreError: the store file can never be loaded.
    """
    target = find_target(request, verb)
    frozen, run = target.frozen, target.frozen.run
    progress.note("recipe", f"{run.name} ({frozen.recipe})")
    progress.note("profile", f"{run.profile}: {run.profile_reason}")
    for warning in frozen.warnings:
        progress.warn(warning)
    drift, let_through = _enforced(run, allow_drift=request.allow_drift)
    dialect = spoken_dialect(run, beside=frozen.beside)
    lists = select_tasks(run.tasks, env=dialect.name, beside=frozen.beside)
    evaluation = {name: tasks_of(rows, env=dialect.name, split=name) for name, rows in lists.evaluation.items()}
    allowed = (*target.drift, *let_through)
    _warn_of_drift(progress, [each for each in lists.warnings if each not in frozen.warnings], None if let_through else drift, allowed)
    home = target.folder or (request.runs_dir or Path(run.store.runs_dir)) / new_name(run, frozen.digest)
    progress.note("digest", frozen.digest)
    database = request.database or Path(run.store.database)
    refuse_unusable(database)
    return Prepared(
        run=run,
        frozen=frozen,
        name=home.name,
        folder=home,
        database=database,
        resumed=target.folder is not None,
        drift=drift,
        allowed=allowed,
        dialect=dialect,
        train_tasks=tasks_of(lists.train, env=dialect.name, split=_train_split(lists.train)),
        evaluation_tasks=chosen_tasks(evaluation, run.evaluation.only, env=dialect.name),
    )


def _warn_of_drift(progress: Progress, lists: Sequence[str], lock: str | None, allowed: Sequence[str]) -> None:
    """Say what is not as it was frozen or locked, and may be."""
    for warning in (*lists, *filter(None, [lock]), *(f"drift allowed: {sentence}" for sentence in allowed)):
        progress.warn(warning)


def _enforced(run: Run, *, allow_drift: bool) -> tuple[str | None, tuple[str, ...]]:
    """How the interpreter differs from the stack's lock, and that once more where it would be an error and is allowed. Raises LockError."""
    drift = compare(read_lock(find_lock(run.engine.stack)))
    if drift and run.engine.drift == "error" and allow_drift:
        return drift.sentence(), (f"another interpreter: {drift.sentence()[:_SAID]}",)
    return enforce(drift, run.engine.drift), ()


def new_name(run: Run, digest: str) -> str:
    """Name of a new run by recipe, profile, time and digest; ``claim_folder`` settles a tie."""
    name = f"{run.name}-{run.profile}-{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{digest[:6]}"
    assert _RUN_NAME.fullmatch(name), "names of recipes and profiles are checked by the schema"
    return name


def _train_split(rows: Sequence[TaskRow]) -> str:
    return rows[0].split if rows else ""
