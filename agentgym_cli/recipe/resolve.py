"""From a recipe and overrides to a Run: read, extend, choose a profile, merge, validate. Owns OmegaConf and the environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from omegaconf import OmegaConf

from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.interpolation import allowed, interpolated
from agentgym_cli.recipe.layers import Layer, base_layer, override_layer, profile_layers, read_chain, written
from agentgym_cli.recipe.lock import Installed, installed_version
from agentgym_cli.recipe.problems import Problem, find_problems, place_of, raise_problems, validated, without_unknown
from agentgym_cli.recipe.profiles import GPU, GpuNeed, GpuSurvey, Survey, choose_profile, survey_gpus
from agentgym_cli.recipe.rules import broken_rules, doubts
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.shape import kind_paths
from agentgym_cli.recipe.yaml import YamlValue

_RECORDED = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that are read: the first to choose a profile, the others only to record them in the fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What a recipe means on this machine."""

    run: Run
    recipe_path: Path
    """The recipe's file as it was found."""
    folders: tuple[Path, ...]
    """Absolute folders of the recipe and of those it extends, nearest first: where the files that it names are looked for."""
    warnings: tuple[str, ...]
    """What is possible and probably not meant; to be shown and stored."""
    places: Mapping[str, str]
    """File and line, or override, that gave each key: ``tasks.evaluation[0].name``."""

    def place(self, key: str) -> str | None:
        """Where ``key`` was given, or the nearest section around it; None when nobody gave any of them."""
        while key and key not in self.places:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.places.get(key)


def environment() -> dict[str, str]:
    """The environment variables that a run may depend on, as they are set now."""
    return {name: os.environ[name] for name in _RECORDED if name in os.environ}


def interpolable() -> dict[str, str]:
    """The environment variables whose values a recipe may take, as they are set now."""
    return {name: value for name, value in os.environ.items() if allowed(name)}


def whole_environment() -> dict[str, str]:
    """Every environment variable, for a process of another program that this one starts."""
    return dict(os.environ)


def resolve(
    recipe: str,
    overrides: Sequence[str] = (),
    *,
    survey: Survey | None = None,
    installed: Installed = installed_version,
    only_shown: bool = False,
) -> Resolved:
    """Read a recipe by path or shipped name, choose its profile and merge ``key=value`` overrides on top.

    Args:
        survey: gives the GPUs of this machine; None asks nvidia-smi.
        installed: gives versions of installed packages, to know whether the gpu profile can run.
        only_shown: nothing will run, so a profile that this machine cannot run is taken where no other fits.

    Raises:
        RecipeError: everything that cannot be meant, all at once, each with file, line, key, expected, got and the nearest name.
        LockError: the GPUs that profile ``gpu`` asks for are there and its engine is not installed.
    """
    path = find_data(recipe, where="recipe")
    files = read_chain(path)
    variables = interpolable()
    bases = [interpolated(base_layer(file), variables) for file in files]
    profiles = [{name: interpolated(layer, variables) for name, layer in profile_layers(file).items()} for file in files]
    wanted, said = override_layer(overrides)
    said = interpolated(said, variables)
    names = list(dict.fromkeys(name for each in profiles for name in each))

    def stack(name: str) -> list[Layer]:
        return [*bases, *(each[name] for each in profiles if name in each), said]

    need = _gpu_need(_merged(stack(GPU))) if GPU in names else None
    choice = choose_profile(names, wanted=wanted, need=need, survey=survey or visible_gpus, installed=installed, only_shown=only_shown)
    layers = stack(choice.name)
    data = _merged(layers)
    problems = [*_problems_of_files(bases, profiles, variables), *_problems_of(data, layers, variables)]
    others = [name for name in names if name != choice.name]
    raise_problems([*problems, *_problems_elsewhere(others, lambda name: stack(name)[:-1], known=problems, variables=variables)])
    run = validated(data, profile=choice.name, reason=choice.reason)
    warnings = tuple(f"{place_of(path, layers)}: {written(path)}: {text}" for path, text in doubts(run))
    folders = tuple(dict.fromkeys(file.path.resolve().parent for file in reversed(files)))
    return Resolved(run=run, recipe_path=path, folders=folders, warnings=warnings, places=_places(layers))


def _places(layers: Sequence[Layer]) -> dict[str, str]:
    return {written(path): str(place) for layer in layers for path, place in layer.places.items() if path and layer.has(path)}


def visible_gpus() -> GpuSurvey:
    """The GPUs that a program started from here would see, by nvidia-smi."""
    return survey_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"))


def fullest_gpu_bytes() -> int:
    """Memory that is taken on the fullest of these GPUs; 0 where there is none."""
    return max(survey_gpus(os.environ.get("CUDA_VISIBLE_DEVICES"), taken=True).memory_mib, default=0) * 1024**2


def _problems_of_files(bases: Sequence[Layer], profiles: Sequence[dict[str, Layer]], variables: Mapping[str, str]) -> list[Problem]:
    """Problems of every recipe of the chain and of every profile, the one that will be chosen or not; what is missing may come later."""
    found: list[Problem] = []
    base: dict[str, YamlValue] = {}
    for end in range(1, len(bases) + 1):
        base = _merged([bases[end - 1]], onto=base)
        found.extend(find_problems(base, bases[:end], complete=False, variables=variables))
        for name in dict.fromkeys(name for each in profiles[:end] for name in each):
            over = [each[name] for each in profiles[:end] if name in each]
            found.extend(find_problems(_merged(over, onto=base), [*bases[:end], *over], complete=False, variables=variables))
    return found


def _problems_of(data: dict[str, YamlValue], layers: Sequence[Layer], variables: Mapping[str, str]) -> list[Problem]:
    """All that is wrong with the merged values of one profile: single values, and the combinations of those that can be read."""
    found = list(find_problems(data, layers, complete=True, variables=variables))
    readable = without_unknown(data) if found else data
    if readable is not None:
        run = validated(readable, profile="unchosen", reason="")
        found += [Problem(place=place_of(path, layers), text=f"{written(path)}: {text}") for path, text in broken_rules(run)]
    return found


def _problems_elsewhere(
    names: Sequence[str], stack: Callable[[str], list[Layer]], *, known: Sequence[Problem], variables: Mapping[str, str]
) -> list[Problem]:
    """What is wrong in other profiles, beyond the known problems; without overrides, which are meant for the chosen profile."""
    found: list[Problem] = []
    for name in names:
        layers = stack(name)
        here = [each for each in _problems_of(_merged(layers), layers, variables) if each not in known]
        found += [Problem(place=each.place, text=f"with profile {name}: {each.text}") for each in here]
    return found


def _gpu_need(data: dict[str, YamlValue]) -> GpuNeed:
    engine, cluster = (data.get(name) for name in ("engine", "cluster"))
    kind = engine.get("kind") if isinstance(engine, dict) else None
    gpus, memory = (cluster.get(name) if isinstance(cluster, dict) else None for name in ("gpus_per_node", "gpu_memory_gib"))
    return GpuNeed(
        kind=kind if kind in ("local", "verl") else "local",
        gpus=gpus if isinstance(gpus, int) else 0,
        gpu_memory_gib=memory if isinstance(memory, int) else 0,
    )


def _merged(layers: Sequence[Layer], *, onto: Mapping[str, YamlValue] | None = None) -> dict[str, YamlValue]:
    """Values of all layers, later ones on top of ``onto``: mappings merge, lists and values replace, and so does a section of another kind."""
    data = dict(onto or {})
    for layer in layers:
        below = _without_replaced(data, layer.data, ())
        data = _merge_two(below, layer.data) if below and layer.data else below or layer.data
    return data


def _merge_two(below: dict[str, YamlValue], above: dict[str, YamlValue]) -> dict[str, YamlValue]:
    """``above`` on ``below``. OmegaConf gets the mappings of both alone: making its nodes of all the rest takes most of the time."""
    both = [key for key, value in above.items() if isinstance(value, dict) and isinstance(below.get(key), dict)]
    shared = (OmegaConf.create({key: side[key] for key in both}) for side in (below, above))
    merged = cast("dict[str, YamlValue]", OmegaConf.to_container(OmegaConf.unsafe_merge(*shared), resolve=False)) if both else {}
    return {**below, **above, **merged}


def _without_replaced(below: dict[str, YamlValue], above: dict[str, YamlValue], path: tuple[str, ...]) -> dict[str, YamlValue]:
    kept: dict[str, YamlValue] = {}
    for key, value in below.items():
        over, inner = above.get(key), (*path, key)
        if key not in above:
            kept[key] = value
        elif isinstance(value, dict) and isinstance(over, dict) and not (inner in kind_paths() and _other_kind(value, over)):
            kept[key] = _without_replaced(value, over, inner)
    return kept


def _other_kind(below: dict[str, YamlValue], above: dict[str, YamlValue]) -> bool:
    return "kind" in above and above["kind"] != below.get("kind")
