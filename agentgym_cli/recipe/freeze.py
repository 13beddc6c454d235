"""A run frozen: its resolved recipe and a digest of everything that it depends on, item by item. Runs nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import canonical_json, digest_of, file_digest, leaves
from agentgym_cli.recipe.data import PACKAGE, find_data, try_find
from agentgym_cli.recipe.lock import find_lock
from agentgym_cli.recipe.package import folder_files, package_files
from agentgym_cli.recipe.resolve import Resolved
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import TaskRow, select_tasks
from agentgym_cli.recipe.wording import listed, nearest, shown
from agentgym_cli.recipe.yaml import read_yaml

SCHEMA = 1
OUTSIDE_DIGEST = frozenset({"profile_reason", "store.runs_dir", "store.database"})
"""Keys of the config that never change a result: where results go, and why a profile was chosen."""
HARMLESS = OUTSIDE_DIGEST | {"name", "description", "profile", "store.keep_tokens"}
"""Keys that change no episode and no metric."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")

Parts = Mapping[str, Mapping[str, str]]
"""By item, digests or words by name: ``{"model": {"config.json": "..."}}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The whole experiment. Equal digests mean equal config, tasks, prompt, dialect, model, lock, seeds and program."""

    run: Run
    parts: Parts
    recipe: str
    """Path of the recipe as it was found; outside the digest, as are the two that follow."""
    folders: tuple[str, ...]
    """Where the files that the recipe names are looked for first."""
    warnings: tuple[str, ...]

    @property
    def items(self) -> dict[str, str]:
        """SHA-256 of each item."""
        config = {key: leaf for key, leaf in leaves(config_of(self.run)) if key not in OUTSIDE_DIGEST}
        own = {"config": digest_of(config), "seeds": digest_of({"run": self.run.seed})}
        return own | {item: digest_of(part) for item, part in self.parts.items()}

    @property
    def digest(self) -> str:
        """SHA-256 over all items, 64 hex digits."""
        return digest_of(self.items)

    @property
    def beside(self) -> tuple[Path, ...]:
        """``folders`` as paths, for ``find_data``."""
        return tuple(Path(folder) for folder in self.folders)

    def document(self) -> dict[str, object]:
        """What is written: plain data."""
        return {
            "schema": SCHEMA,
            "digest": self.digest,
            "items": self.items,
            "config": config_of(self.run),
            "parts": {item: dict(part) for item, part in self.parts.items()},
            "recipe": self.recipe,
            "folders": list(self.folders),
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """Canonical JSON in one line."""
        return canonical_json(self.document())

    def write(self, path: Path) -> None:
        """Write a file that ``read_frozen`` reads: JSON with sorted keys, put in place whole."""
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        aside.write_text(json.dumps(self.document(), sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1) + "\n", encoding="utf-8")
        aside.replace(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key or file in which two frozen runs differ."""

    key: str
    """``train.steps`` of the config, ``ITEM: NAME`` of any other item."""
    a: str | None
    """Canonical JSON of the value, or the digest; None when it is not there."""
    b: str | None
    affects_results: bool


def config_of(run: Run) -> dict[str, object]:
    """A Run as plain data, nulls kept."""
    return dataclasses.asdict(run)


def freeze(resolved: Resolved) -> Frozen:
    """Digest everything that a resolved recipe depends on. Reads whole model folders.

    Raises:
        RecipeError: a file that the run needs is missing or broken, or training and evaluation share a task.
    """
    run, folders = resolved.run, resolved.folders
    lists = select_tasks(run.tasks, beside=folders)
    tasks = {f"tasks.evaluation.{name}": _rows(rows) for name, rows in lists.evaluation.items()}
    if lists.train:
        tasks["tasks.train"] = _rows(lists.train)
    parts = {item: part(run, folders) for item, part in _PARTS.items()}
    folder_names = tuple(str(folder) for folder in folders)
    warnings = (*resolved.warnings, *_unpinned(run, parts["model"]))
    return Frozen(run=run, parts=tasks | parts, recipe=str(resolved.recipe_path), folders=folder_names, warnings=warnings)


def _unpinned(run: Run, model: Mapping[str, str]) -> Iterator[str]:
    if "hub" in model and run.policy.model.revision is None:
        yield f"policy.model.revision: expected the pinned revision of {run.policy.model.path}, got null: the digest does not cover its weights"


def check(frozen: Frozen) -> list[Difference]:
    """What has changed on disk since: ``a`` is the frozen digest, ``b`` the one of now, None where it cannot be read any more."""
    now: dict[str, Mapping[str, str]] = {}
    for item in frozen.parts:
        try:
            now[item] = _part_now(item, frozen)
        except RecipeError:
            now[item] = {}
    return _part_differences(frozen.parts, now)


def diff(a: Frozen, b: Frozen) -> list[Difference]:
    """Every leaf of the config and every file in which two frozen runs differ, sorted by key, config first."""
    ours, theirs = dict(leaves(config_of(a.run))), dict(leaves(config_of(b.run)))
    keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
    found = [Difference(key=key, a=ours.get(key), b=theirs.get(key), affects_results=key not in HARMLESS) for key in keys]
    return [*found, *_part_differences(a.parts, b.parts)]


def _part_differences(a: Parts, b: Parts) -> list[Difference]:
    ours = {f"{item}: {name}": value for item, part in a.items() for name, value in part.items()}
    theirs = {f"{item}: {name}": value for item, part in b.items() for name, value in part.items()}
    keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
    return [Difference(key=key, a=ours.get(key), b=theirs.get(key), affects_results=True) for key in keys]


def _part_now(item: str, frozen: Frozen) -> Mapping[str, str]:
    if item in _PARTS:
        return _PARTS[item](frozen.run, frozen.beside)
    lists = select_tasks(frozen.run.tasks, beside=frozen.beside)
    return _rows(lists.train if item == "tasks.train" else lists.evaluation[item.removeprefix("tasks.evaluation.")])


def _rows(rows: Sequence[TaskRow]) -> dict[str, str]:
    return {"count": str(len(rows)), "rows": digest_of([[row.index, row.split, row.category, row.goal, row.digest] for row in rows])}


def dialect_path(name: str, *, beside: Sequence[Path]) -> Path:
    """File of a dialect: a shipped one by name, or any by path (anything with a slash or an ending). Raises RecipeError."""
    if "/" in name or Path(name).suffix:
        return find_data(name, beside=beside, where="env.dialect")
    shipped = {path.stem: path for path in (PACKAGE / "env" / "dialects").glob("*.yaml")}
    if name not in shipped:
        hint = f"did you mean {nearest(name, shipped)}? A dialect of your own is named by its path"
        raise RecipeError(f"env.dialect: expected one of {listed(sorted(shipped))}, got {shown(name)}", hint=hint)
    return shipped[name]


def _dialect(run: Run, beside: Sequence[Path]) -> dict[str, str]:
    path = dialect_path(run.env.dialect, beside=beside)
    prompt = read_yaml(path).data.get("prompt")
    files = {"dialect": path} | ({"prompt": path.parent / prompt} if isinstance(prompt, str) else {})
    return {name: _digest_of_file(file) for name, file in files.items()}


def _prompt(run: Run, beside: Sequence[Path]) -> dict[str, str]:
    if run.prompt.system in (None, "none"):
        return {"system": "the dialect's" if run.prompt.system is None else "none"}
    return {"system": _digest_of_file(find_data(run.prompt.system, beside=beside, where="prompt.system"))}


def _model(run: Run, beside: Sequence[Path]) -> dict[str, str]:
    model = run.policy.model
    found = try_find(model.path, beside=beside)
    if found is None and run.engine.kind != "local" and _HUB_NAME.fullmatch(model.path):
        return {"hub": model.path, "revision": model.revision or "not pinned"}
    folder = found or find_data(model.path, beside=beside, where="policy.model.path")
    if not folder.is_dir():
        raise RecipeError(f"policy.model.path: expected a folder with config.json and tokenizer.json, got the file {shown(str(folder))}")
    return folder_files(folder)


def _lock(run: Run, beside: Sequence[Path]) -> dict[str, str]:
    return {f"{run.engine.stack}.txt": file_digest(find_lock(run.engine.stack))}


def _package(run: Run, beside: Sequence[Path]) -> dict[str, str]:
    return package_files()


def _digest_of_file(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as err:
        raise RecipeError(f"{path}: expected a readable file, got: {err.strerror}") from err


_PARTS: Mapping[str, Callable[[Run, Sequence[Path]], dict[str, str]]] = {
    "dialect": _dialect,
    "prompt": _prompt,
    "model": _model,
    "lock": _lock,
    "package": _package,
}
