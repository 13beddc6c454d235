"""``agentgym recipe`` and ``train --show``: what recipes there are, and what one of them means here. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import find_data, shipped_root
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.recipe.layers import read_chain
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.learning import FixedHorizon, HorizonSpec, StagesHorizon
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.tasks import MissingLists
from agentgym_cli.verbs.stages import Plan, plan_of

_GPU = "gpu"
_BASE = "base.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRecipe:
    """A shipped recipe, resolved for profile ``gpu`` where it has one, else for its first."""

    recipe: str
    """As the command line takes it."""
    run: Run
    profiles: tuple[str, ...]

    @property
    def turns(self) -> str:
        """The horizon in short: ``30``, ``10>20>30`` or ``5+2..15``; of an evaluation where nothing is trained."""
        return str(self.run.evaluation.horizon) if self.run.train is None else short_horizon(self.run.horizon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a recipe or a frozen run means, without starting it."""

    run: Run
    warnings: tuple[str, ...]
    digest: str | None
    why_no_digest: str | None
    """What is missing for a digest, e.g. a list that the person supplies; None where there is one."""
    plan: Plan


def list_recipes() -> list[ListedRecipe]:
    """Every recipe that ships, in the order of names; files called base.yaml are no recipes of their own but lie below others."""
    folder = shipped_root() / "recipes"
    found = []
    for path in sorted(path for path in folder.rglob("*.yaml") if path.name != _BASE):
        names = _profiles([file.data.get("profiles") for file in read_chain(path)])
        chosen = next((name for name in names if name == _GPU), next(iter(names), None))
        run = resolve(str(path), [f"profile={chosen}"] if chosen else []).run
        found.append(ListedRecipe(recipe=f"recipes/{path.relative_to(folder).as_posix()}", run=run, profiles=names))
    return found


def _profiles(sections: Sequence[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for section in sections if isinstance(section, dict) for name in section))


def short_horizon(horizon: HorizonSpec) -> str:
    """A horizon schedule in a few characters."""
    if isinstance(horizon, FixedHorizon):
        return str(horizon.turns)
    if isinstance(horizon, StagesHorizon):
        return ">".join(map(str, horizon.turns))
    return f"{horizon.start}+{horizon.increment}..{horizon.cap}"


def show_target(target: str, overrides: Sequence[str]) -> Shown:
    """What a recipe, a frozen run or the folder of a run means. Task lists that the person supplies and that are not there are said, not an error.

    Raises:
        RecipeError: what cannot be meant.
    """
    folder = Path(target)
    if (folder / "frozen.json").is_file() or target.endswith(".json"):
        if overrides:
            raise RecipeError(f"{target}: expected no overrides of a frozen run, got {overrides[0]!r}", "give overrides with the recipe instead")
        frozen = read_frozen(folder / "frozen.json" if folder.is_dir() else find_data(target, where="frozen run"))
        return _shown(frozen.run, frozen.warnings, frozen.digest, None)
    resolved = resolve(target, overrides, only_shown=True)
    try:
        frozen = freeze(resolved)
    except MissingLists as err:
        return _shown(resolved.run, resolved.warnings, None, err.message)
    return _shown(frozen.run, frozen.warnings, frozen.digest, None)


def _shown(run: Run, warnings: tuple[str, ...], digest: str | None, why: str | None) -> Shown:
    return Shown(run=run, warnings=warnings, digest=digest, why_no_digest=why, plan=plan_of(run))
