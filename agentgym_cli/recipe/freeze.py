"""A run frozen: its resolved recipe and a digest of everything that it depends on, item by item. Runs nothing."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import canonical_json, digest_of, leaves
from agentgym_cli.recipe.models import find_model_lock
from agentgym_cli.recipe.overlap import reported
from agentgym_cli.recipe.parts import NOT_PINNED, PARTS, Part, Parts, Sources, task_parts
from agentgym_cli.recipe.resolve import Resolved
from agentgym_cli.recipe.schema.algorithms import OnlineSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import TaskLists

SCHEMA = 2
"""Version of the file. 1 had no items ``rules`` and ``tokenizer``, no order of tasks apart from the tasks, and nothing observed."""
OUTSIDE_DIGEST = frozenset(
    {
        "about",
        "budgets.run_cost",
        "budgets.run_tokens",
        "cluster.ray_address",
        "description",
        "engine.memory_check",
        "env.token_variable",
        "env.urls",
        "policy.endpoint.key_variable",
        "policy.endpoint.max_in_flight",
        "policy.endpoint.requests_per_minute",
        "policy.endpoint.tokens_per_minute",
        "policy.endpoint.url",
        "profile_reason",
        "store.database",
        "store.keep_tokens",
        "store.runs_dir",
        "train.keep_checkpoints",
    }
)
"""Keys of the config, with all below them, that never change a result: words for people, where results go, where services are, and how much
of a schedule is run before the run stops to be resumed."""
HARMLESS = OUTSIDE_DIGEST | {"engine.drift", "evaluation.protocol", "name", "profile", "tasks.allow_overlap"}
"""Keys that change no episode and no metric."""
_KEY = re.compile(r"[a-z_]+((\.[a-z_]+)|(\[\d+\]))*")
"""A key as an error begins with it."""
_RULES = ("budgets", "evaluation.horizon", "horizon", "retry", "reward")
"""Keys of the config that are rules of reward and stopping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The whole experiment. Equal digests mean equal config, tasks, prompt, dialect, rules, model, tokenizer, lock, seeds and program."""

    run: Run
    parts: Parts
    recipe: str
    """Path of the recipe as it was found; outside the digest, as are the three that follow."""
    folders: tuple[str, ...]
    """Where the files that the recipe names are looked for first."""
    warnings: tuple[str, ...]
    observed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What environment servers said they are, by URL, or ``env.world``; empty before anybody asked."""
    categories: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    """Tasks of each evaluation split by category, for reports of what was left out; outside the digest, which has the tasks themselves."""

    @property
    def items(self) -> dict[str, str]:
        """SHA-256 of each item."""
        config = {key: leaf for key, leaf in leaves(config_of(self.run)) if not below(key, OUTSIDE_DIGEST)}
        rules = {key: leaf for key, leaf in config.items() if below(key, _RULES)}
        parts: dict[str, Part] = {**self.parts, "rules": {**rules, **self.parts.get("rules", {})}}
        own = {"config": digest_of(config), "seeds": digest_of({"run": self.run.seed})}
        return own | {item: digest_of(part) for item, part in parts.items()}

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
            "observed": dict(self.observed),
            "categories": {split: dict(counts) for split, counts in self.categories.items()},
        }

    def to_json(self) -> str:
        """Canonical JSON in one line."""
        return canonical_json(self.document())

    def write(self, path: Path) -> None:
        """Write a file that ``read_frozen`` reads: JSON with sorted keys, put in place whole. Raises OSError, and leaves nothing behind then."""
        text = json.dumps(self.document(), sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise


def below(key: str, names: Iterable[str]) -> bool:
    """True when a key is one of ``names`` or stands below one of them: ``about.source`` below ``about``."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def config_of(run: Run) -> dict[str, object]:
    """A Run as plain data, nulls kept."""
    return dataclasses.asdict(run)


def freeze(resolved: Resolved) -> Frozen:
    """Digest everything that a resolved recipe depends on. Reads whole model folders, asks no server.

    Raises:
        RecipeError: a file that the run needs is missing or broken, or training and evaluation share a task.
    """
    run, folders = resolved.run, resolved.folders
    sources = Sources(run=run, beside=folders)
    lists, found = _read(resolved, sources)
    parts = task_parts(lists) | found
    warnings = (*resolved.warnings, *_unpinned(run, parts), *lists.warnings, *_drawn_twice(run, lists), *reported(run.about.reported_overlaps))
    return Frozen(
        run=run,
        parts=parts,
        recipe=str(resolved.recipe_path),
        folders=tuple(map(str, folders)),
        warnings=warnings,
        categories={split: Counter(row.category for row in rows) for split, rows in lists.evaluation.items()},
    )


def _read(resolved: Resolved, sources: Sources) -> tuple[TaskLists, dict[str, Part]]:
    """Everything that the run depends on. Raises one RecipeError for all that cannot be read, each with the line that asks for it."""
    found: dict[str, Part] = {}
    problems: list[RecipeError] = []
    lists = TaskLists(train=(), evaluation={})
    for item, read in PARTS.items():
        try:
            found[item] = read(sources)
        except RecipeError as err:
            problems.append(_located(err, resolved))
    try:
        lists = sources.lists()
    except RecipeError as err:
        problems.append(_located(err, resolved))
    different = {problem.message: problem for problem in problems}
    if len(different) == 1:
        raise problems[0]
    if different:
        raise RecipeError("\n  ".join([f"{len(different)} things that the recipe names cannot be used", *different]))
    return lists, found


def _located(err: RecipeError, resolved: Resolved) -> RecipeError:
    """The same with the file and line of the key that the message begins with."""
    key = _KEY.match(err.message)
    place = resolved.place(key[0]) if key else None
    return err if place is None else type(err)(f"{place}: {err.message}", err.hint)


def _drawn_twice(run: Run, lists: TaskLists) -> Iterator[str]:
    """A step that is larger than the list it draws from."""
    if run.train is not None and isinstance(run.train.algorithm, OnlineSpec) and 0 < len(lists.train) < run.train.tasks_per_step:
        yield (
            f"train.tasks_per_step: expected at most the {len(lists.train)} tasks of the training split, got {run.train.tasks_per_step}: "
            "a step draws some of them more than once, a group each time"
        )


def _unpinned(run: Run, parts: Parts) -> Iterator[str]:
    """Files of a hub that the digest does not cover."""
    model = run.policy.model
    if model is None:
        return
    if parts["model"].get("revision") == NOT_PINNED:
        lock = find_model_lock(model.path)
        known = f"; lockfiles/models.yaml has {lock.revision}" if lock is not None and lock.revision is not None else ""
        yield f"policy.model.revision: expected the pinned revision of {model.path}, got null: the digest does not cover its weights{known}"
    if model.tokenizer is not None and parts["tokenizer"].get("revision") == NOT_PINNED:
        yield f"policy.model.tokenizer: expected a folder, got the hub name {model.tokenizer}: the digest does not cover its files"
