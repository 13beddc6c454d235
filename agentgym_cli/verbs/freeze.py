"""``agentgym freeze``: the frozen run of a recipe, what differs between two, and what has drifted since one was frozen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_cli.errors import PolicyError, RecipeError, StoreError
from agentgym_cli.recipe.drift import Difference, by_item, check, diff
from agentgym_cli.recipe.freeze import Frozen, freeze
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.spoken import spoken_dialect
from agentgym_cli.verbs.world import observe, service_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A frozen run beside the files of now."""

    name: str
    """As it was named on the command line."""
    frozen: Frozen
    items: Mapping[str, Sequence[Difference]]
    """What has drifted, by item; nothing in an item that is the same."""

    @property
    def drifted(self) -> list[str]:
        """Items that are not the same."""
        return [item for item, differences in self.items.items() if differences]


def only_one(recipe: str | None, overrides: Sequence[str], output: Path | None, check: Path | None, diff: tuple[Path, Path] | None) -> None:
    """Refuse words that would be ignored: freezing, checking and comparing are three things. Raises RecipeError."""
    named = {"--check": check is not None, "--diff": diff is not None}
    chosen = [option for option, given in named.items() if given]
    others = {repr(recipe): recipe is not None, repr((*overrides, "")[0]): bool(overrides), "-o": output is not None, "--diff": len(chosen) > 1}
    beside = [word for word, given in others.items() if given]
    if chosen and beside:
        raise RecipeError(f"freeze {chosen[0]}: expected nothing else to do, got {beside[0]} too", "agentgym freeze --help")


def freeze_recipe(recipe: str | None, overrides: Sequence[str], output: Path | None) -> Frozen:
    """Freeze a recipe, ask its servers who they are and, where ``output`` is given, write it there.

    Raises:
        RecipeError: no recipe, or one that cannot be frozen. A server that does not answer is no error.
        StoreError: ``output`` cannot be written.
    """
    if recipe is None:
        raise RecipeError("freeze: expected a recipe, got none", "agentgym freeze recipes/textcraft_grpo.yaml")
    if recipe.endswith(".json"):
        raise RecipeError(f"freeze: expected a recipe (YAML), got {recipe!r}, the name of a frozen run", f"agentgym freeze --check {recipe}")
    frozen = _observed(freeze(resolve(recipe, overrides)))
    if output is not None:
        _write(frozen, output)
    return frozen


def _observed(frozen: Frozen) -> Frozen:
    env = frozen.run.env
    dialect = spoken_dialect(frozen.run, beside=frozen.beside)
    if env.urls is None and env.world is None:
        return frozen
    try:
        token = service_token(env)
    except PolicyError as err:
        return replace(frozen, observed=dict.fromkeys(env.urls or (), f"not asked: {err.message}"))
    return replace(frozen, observed=asyncio.run(observe(env, env.urls or (), dialect, token=token)))


def _write(frozen: Frozen, output: Path) -> None:
    try:
        if output.exists():
            raise FileExistsError(0, "it is a folder" if output.is_dir() else "it is there already, and nothing is written over")
        frozen.write(output)
    except OSError as err:
        raise StoreError(f"{output}: expected to write the frozen run, got: {err.strerror or err}", "choose another place with -o FILE") from err


def compare_frozen(a: Path, b: Path) -> list[Difference]:
    """What differs between two frozen runs, files or folders of runs. Raises RecipeError."""
    return diff(_read(a), _read(b))


def check_frozen(path: Path) -> Checked:
    """What has drifted since a run was frozen, by item; ``path`` is its file or the run's folder. Raises RecipeError when it cannot be read."""
    frozen = _read(path)
    return Checked(name=str(path), frozen=frozen, items=by_item(frozen, check(frozen)))


def _read(path: Path) -> Frozen:
    if not path.is_dir():
        return read_frozen(path)
    if not (path / FROZEN_FILE).is_file():
        hint = f"agentgym freeze RECIPE -o {path / FROZEN_FILE} writes one"
        raise RecipeError(f"{path}: expected a frozen run, or the folder of a run with {FROZEN_FILE} in it, got a folder without", hint)
    return read_frozen(path / FROZEN_FILE)
