"""A toy recipe on disk, prepared as ``eval`` would, with a folder of runs beside it."""

from __future__ import annotations

from pathlib import Path

from agentgym_cli.verbs.home import claim_folder
from agentgym_cli.verbs.prepare import Prepared, prepare
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.request import Request
from tests.recipe.builders import RECIPE, write_recipe

PROMPTED = RECIPE.replace("prompt: {}", "prompt: {system: told.txt}")


def toy(folder: Path, text: str = PROMPTED) -> str:
    """Path of a toy recipe whose prompt is ``told.txt``."""
    recipe = write_recipe(folder, text)
    (folder / "told.txt").write_text("Act well.")
    return recipe


def change(folder: Path) -> None:
    """Change one letter of the prompt."""
    (folder / "told.txt").write_text("Act Well.")


def prepared(target: str | Path, *overrides: str, progress: Silent | None = None, **options: bool) -> Prepared:
    """What ``eval`` would play; a new run would go to ``runs`` beside the target."""
    resumed = options.get("resume", False)
    runs_dir = None if resumed else Path(target).parent / "runs"
    request = Request(target=str(target), overrides=list(overrides), runs_dir=runs_dir, database=Path(target).parent / "x.duckdb", **options)
    return prepare(request, verb="eval", progress=progress or Silent())


def started(target: str | Path, *overrides: str, **options: bool) -> Prepared:
    """The same with its folder made."""
    return claim_folder(prepared(target, *overrides, **options), Silent())
