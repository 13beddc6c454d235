"""What ``train`` and ``eval`` are pointed at: a recipe, frozen now, or a run frozen before, whose files are compared with those of now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.drift import Difference, check, sentences
from agentgym_cli.recipe.freeze import Frozen, freeze
from agentgym_cli.recipe.frozen_file import parse_frozen, read_frozen
from agentgym_cli.recipe.layers import override_layer
from agentgym_cli.recipe.profiles import DEFAULT
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.request import Request

GIVEN_ANEW = ("budgets.run_cost", "budgets.run_tokens", "cluster.ray_address", "env.urls", "train.keep_checkpoints")
"""Keys that a frozen run may be given anew, since they change no result: one that has spent its budget goes on with more, servers move."""
_NAMED = 5
"""Most differences that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A frozen run to play."""

    frozen: Frozen
    folder: Path | None
    """The run's folder, when it is resumed."""
    drift: tuple[str, ...]
    """What is not as it was frozen, where that is allowed; empty for a recipe."""


def find_target(request: Request, verb: str) -> Target:
    """What a request means. Raises RecipeError; also for files that changed since, unless the request allows drift."""
    folder = Path(request.target)
    if not (folder / FROZEN_FILE).is_file():
        if request.resume:
            raise RecipeError(f"{request.target}: expected the folder of a run, with {FROZEN_FILE} in it", f"agentgym {verb} runs/NAME --resume")
        return _fresh(request.target, request.overrides, allow_drift=request.allow_drift)
    if not request.resume:
        raise RecipeError(f"{folder}: expected a recipe, got the folder of a run", _hint(folder, verb))
    if request.runs_dir is not None:
        raise RecipeError("--runs-dir: expected nothing, since a resumed run stays in its folder", f"agentgym {verb} {folder} --resume")
    frozen, overrides = _with_given_anew(read_frozen(folder / FROZEN_FILE), request.overrides, str(folder))
    drift = _drift(frozen, overrides, str(folder), allow_drift=request.allow_drift)
    return Target(frozen=frozen, folder=folder, drift=drift)


def require_recipe(target: str, verb: str) -> None:
    """Refuse a frozen run where a verb takes recipes alone. Raises RecipeError, which names the recipe that it was frozen from."""
    place = Path(target) / FROZEN_FILE if (Path(target) / FROZEN_FILE).is_file() else Path(target)
    if place.suffix == ".json" and place.is_file():
        frozen = read_frozen(place)
        profile = "" if frozen.run.profile == DEFAULT else f" profile={frozen.run.profile}"
        raise RecipeError(f"{target}: expected a recipe, got a frozen run", f"agentgym {verb} {frozen.recipe}{profile}, with its other overrides")


def _hint(folder: Path, verb: str) -> str:
    """What may have been meant by the folder of a run."""
    goes_on = f"agentgym {verb} {folder} --resume continues it"
    if verb != "eval":
        return goes_on
    frozen = read_frozen(folder / FROZEN_FILE)
    return f"agentgym eval {frozen.recipe} profile={frozen.run.profile} --checkpoint {folder} evaluates what it trained; {goes_on}"


def _with_given_anew(frozen: Frozen, overrides: Sequence[str], where: str) -> tuple[Frozen, Sequence[str]]:
    """The frozen run with other limits on what all of it may spend, or other addresses, and the overrides that are left. Raises RecipeError."""
    anew = [override for override in overrides if override.partition("=")[0] in GIVEN_ANEW]
    if not anew:
        return frozen, overrides
    _, layer = override_layer(anew)
    document = json.loads(frozen.to_json())
    for section, values in layer.data.items():
        document["config"][section] = document["config"][section] or {}
        document["config"][section] |= values
    return parse_frozen(canonical_json(document), where=where), [override for override in overrides if override not in anew]


def _fresh(target: str, overrides: Sequence[str], *, allow_drift: bool) -> Target:
    """A target for a new run."""
    if target.endswith(".json"):
        frozen, rest = _with_given_anew(read_frozen(find_data(target, where="frozen run")), overrides, target)
        drift = _drift(frozen, rest, target, allow_drift=allow_drift)
        return Target(frozen=frozen, folder=None, drift=drift)
    resolved = resolve(target, overrides)
    return Target(frozen=freeze(resolved), folder=None, drift=())


def _drift(frozen: Frozen, overrides: Sequence[str], where: str, *, allow_drift: bool) -> tuple[str, ...]:
    """What differs from the frozen run, in sentences. Raises RecipeError when something does and that is not allowed."""
    if overrides:
        raise RecipeError(f"{where}: expected no overrides of a frozen run, got {overrides[0]!r}", "give overrides with the recipe instead")
    changed = check(frozen)
    if changed and not allow_drift:
        raise RecipeError(
            f"{where}: expected the files that the run was frozen with, digest {frozen.digest[:12]}; {_named(changed)}",
            "go back to those files, or start a new run from the recipe; --allow-drift goes on with these, and every report of the run says so",
        )
    return sentences(changed)


def _named(changed: Sequence[Difference]) -> str:
    first = ", ".join(f"{each.key} (the same tasks in another order)" if each.reordered else each.key for each in changed[:_NAMED])
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    return f"changed since: {first}{more}"
