"""``agentgym freeze``: the frozen run of a recipe, and what differs between two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.recipe.freeze import Difference, Frozen, diff, freeze
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.recipe.resolve import resolve


def freeze_recipe(recipe: str | None, overrides: Sequence[str], output: Path | None) -> Frozen:
    """Freeze a recipe and, where ``output`` is given, write it there. Raises RecipeError; StoreError when it cannot be written."""
    if recipe is None:
        raise RecipeError("freeze: expected a recipe, got none", "agentgym freeze recipes/textcraft_grpo.yaml")
    frozen = freeze(resolve(recipe, overrides))
    if output is not None:
        try:
            frozen.write(output)
        except OSError as err:
            raise StoreError(f"{output}: expected to write the frozen run, got: {err.strerror or err}", "choose another place with -o") from err
    return frozen


def compare_frozen(a: Path, b: Path) -> list[Difference]:
    """What differs between two frozen runs, files or folders of runs. Raises RecipeError."""
    return diff(*(read_frozen(path / "frozen.json" if path.is_dir() else path) for path in (a, b)))
