"""The layers that a run is merged from, later ones on top: recipes by ``extends``, a profile, overrides. Each value keeps its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.shape import RECIPE_KEYS
from agentgym_cli.recipe.wording import shown
from agentgym_cli.recipe.yaml import KeyPath, YamlFile, YamlValue, parse_value, read_yaml

_MAX_EXTENDS = 8
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_VERL = "verl."
"""How overrides in verl's own words begin."""
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Place:
    """Where somebody wrote something."""

    source: str
    """Path of a file, or an override as it was given."""
    line: int
    """From 1; 0 for an override."""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Values that go on top of those below."""

    data: dict[str, YamlValue]
    places: Mapping[KeyPath, Place]
    prefix: KeyPath = ()
    """Path of these values in their file: () or ("profiles", NAME)."""

    def place(self, path: KeyPath) -> Place:
        """Place of the value at ``path``, else of the nearest mapping or list around it or, for want of one, of a value inside it."""
        around = (path[:end] for end in range(len(path), 0, -1) if path[:end] in self.places)
        found = next(around, None)
        if found is None:
            found = next((each for each in self.places if path and each[: len(path)] == path), ())
        return self.places[found]

    def has(self, path: KeyPath) -> bool:
        """True when this layer gives a value at ``path``."""
        data: YamlValue = self.data
        for part in path:
            if isinstance(data, dict) and part in data:
                data = data[str(part)]
            elif isinstance(data, list) and isinstance(part, int) and part < len(data):
                data = data[part]
            else:
                return False
        return True

    def texts(self) -> Iterator[tuple[KeyPath, str]]:
        """Every text in the values, keys of mappings included, with its path."""
        yield from _texts((), self.data)


def _texts(path: KeyPath, value: YamlValue) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), key
            yield from _texts((*path, key), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts((*path, number), inner)


def written(path: KeyPath) -> str:
    """A key path as people write it: ``tasks.evaluation[0].name``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".") or "the recipe"


def read_chain(path: Path) -> tuple[YamlFile, ...]:
    """The recipe at ``path`` and those it extends, the lowest first.

    Raises:
        RecipeError: a file is missing or broken, or recipes extend each other in a circle.
    """
    chain = [read_yaml(path)]
    seen = {path.resolve(): str(path)}
    while (base := chain[0].data.get("extends")) is not None:
        file = chain[0]
        where = f"{file.path}:{file.lines[('extends',)]}: extends"
        if not isinstance(base, str):
            raise RecipeError(f"{where}: expected the path of one recipe, got {shown(base)}")
        found = find_data(base, beside=[file.path.parent], where=where)
        if found.resolve() in seen:
            raise RecipeError(f"{where}: expected no circle, got {' -> '.join([*seen.values(), str(found)])}")
        if len(chain) == _MAX_EXTENDS:
            raise RecipeError(f"{where}: expected at most {_MAX_EXTENDS} recipes that extend each other, got more")
        seen[found.resolve()] = str(found)
        chain.insert(0, read_yaml(found))
    return tuple(chain)


def base_layer(file: YamlFile) -> Layer:
    """What a recipe says whatever the profile."""
    data = {key: value for key, value in file.data.items() if key not in RECIPE_KEYS}
    return Layer(data=data, places={path: Place(source=str(file.path), line=line) for path, line in file.lines.items()})


def profile_layers(file: YamlFile) -> dict[str, Layer]:
    """The profiles of one recipe by name.

    Raises:
        RecipeError: ``profiles`` is not a mapping of mappings.
    """
    profiles = file.data.get("profiles", {})
    if not isinstance(profiles, dict):
        raise RecipeError(f"{file.path}:{file.lines[('profiles',)]}: profiles: expected a mapping of profiles, got {shown(profiles)}")
    layers = {}
    for name, data in profiles.items():
        prefix = ("profiles", name)
        line = file.lines[prefix]
        if not _NAME.fullmatch(name):
            raise RecipeError(f"{file.path}:{line}: profiles: expected a name of letters, digits, _, . and -, got {shown(name)}")
        if not isinstance(data, dict):
            raise RecipeError(f"{file.path}:{line}: profiles.{name}: expected a mapping (empty: {{}}), got {shown(data)}")
        places = {path[2:]: Place(source=str(file.path), line=at) for path, at in file.lines.items() if path[:2] == prefix}
        layers[name] = Layer(data=data, places=places, prefix=prefix)
    return layers


def override_layer(overrides: Sequence[str]) -> tuple[str | None, Layer]:
    """The profile that ``profile=NAME`` asks for, and the other ``key=value`` overrides as a layer; values are typed as YAML types them.

    Raises:
        RecipeError: an override is not of that form, names a list's element, or says the same key twice.
    """
    profile: str | None = None
    data: dict[str, YamlValue] = {}
    places: dict[KeyPath, Place] = {(): Place(source="the command line", line=0)}
    for override in _with_verl_keys(overrides):
        path, value = _parse_override(override)
        if path == ("profile",):
            if profile is not None or not isinstance(value, str):
                raise RecipeError(f"override {shown(override)}: expected profile=NAME once, got {shown(value)}")
            profile = value
            continue
        place = Place(source=f"override {shown(override)}", line=0)
        said = next((each for each in places if each and (each[: len(path)] == path or path[: len(each)] == each)), None)
        if said is not None:
            raise RecipeError(f"{place}: expected each key once, got it beside {places[said]}")
        places[path] = place
        _put(data, path, value)
    return profile, Layer(data=data, places=places)


def _with_verl_keys(overrides: Sequence[str]) -> list[str]:
    """``verl.KEY=VALUE`` is an element of the list ``cluster.verl``: all of them together are one override."""
    own = [override.removeprefix(_VERL) for override in overrides if override.startswith(_VERL)]
    rest = [override for override in overrides if not override.startswith(_VERL)]
    return [*rest, f"cluster.verl={json.dumps(own)}"] if own else rest


def _parse_override(override: str) -> tuple[tuple[str, ...], YamlValue]:
    key, equals, text = override.partition("=")
    where = f"override {shown(override)}"
    if equals and re.search(r"\[|(^|\.)\d+(\.|$)", key):
        whole = re.split(r"\[|\.\d", key)[0]
        raise RecipeError(f"{where}: expected a key, got an element of a list", hint=f"give the whole list: '{whole}=[...]'")
    if key.split(".")[0] in RECIPE_KEYS:
        raise RecipeError(f"{where}: expected a key of the run, got {key.split('.')[0]}, which only a file can say", hint="profile=NAME chooses one")
    if not equals or not _KEY.fullmatch(key):
        raise RecipeError(f"{where}: expected key=value with a key of the recipe, got {shown(override)}", hint="for example train.steps=20")
    return tuple(key.split(".")), parse_value(text, where=where)


def _put(data: dict[str, YamlValue], path: tuple[str, ...], value: YamlValue) -> None:
    for part in path[:-1]:
        inner = data.setdefault(part, {})
        assert isinstance(inner, dict), "keys given whole and in part are refused before"
        data = inner
    data[path[-1]] = value
