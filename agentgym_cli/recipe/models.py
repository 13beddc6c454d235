"""Pinned models and tokenizers, as lockfiles/models.yaml has them: revisions, and the digest of each file where it is known. Loads no model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias, cast, get_args

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.recipe.yaml import KeyPath, YamlFile, YamlValue, read_yaml

Source: TypeAlias = Literal["hub", "shipped", "package"]
UNKNOWN = "unknown"
_KEYS = ("source", "revision", "package", "evidence", "files")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_REVISION = re.compile(r"[0-9a-f]{40}|unknown")
_DIGEST = re.compile(r"[0-9a-f]{64}|unknown")
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][0-9A-Za-z.+!_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLock:
    """One model or tokenizer, pinned."""

    name: str
    """As a recipe names it: ``OWNER/NAME`` on the hub, or a shipped folder."""
    source: Source
    revision: str | None
    """Commit of the hub's repository, 40 hex digits; None when it is unknown, and for a shipped folder, which has none."""
    package: str | None
    """``NAME==VERSION`` of the distribution that holds the file; None for any other source."""
    evidence: str
    """What the pins were taken from."""
    files: Mapping[str, str | None]
    """SHA-256 by file name, 64 hex digits; None where it is unknown."""


def read_models(path: Path) -> Mapping[str, ModelLock]:
    """Every pinned model by name.

    Raises:
        RecipeError: names file, line and key of the first thing that cannot be meant.
    """
    reader = _Reader(read_yaml(path))
    root = reader.mapping((), ("models",), required=("models",))
    return {name: reader.model(name) for name in reader.named(root, ("models",), _NAME, "OWNER/NAME")}


def find_model_lock(name: str, path: Path | None = None) -> ModelLock | None:
    """The pin of a model as a recipe names it; None when there is none. ``path``: another file than the shipped one. Raises RecipeError."""
    return read_models(path or shipped_root() / "lockfiles" / "models.yaml").get(name)


class _Reader:
    """Values of one file by their path, each checked where it is read."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file

    def model(self, name: str) -> ModelLock:
        at = ("models", name)
        given = self.mapping(at, _KEYS, required=("source", "evidence", "files"))
        source = self.text((*at, "source"), re.compile("|".join(get_args(Source))), f"one of {listed(get_args(Source))}")
        self._keys_of_source(at, source, given)
        files = self.named(given, (*at, "files"), _FILE, "a file's name")
        revision = self.text((*at, "revision"), _REVISION, "40 hex digits or unknown") if "revision" in given else UNKNOWN
        return ModelLock(
            name=name,
            source=cast(Source, source),
            revision=_known(revision),
            package=self.text((*at, "package"), _PACKAGE, "NAME==VERSION") if "package" in given else None,
            evidence=self.text((*at, "evidence"), re.compile(r"\S.*", re.DOTALL), "a sentence"),
            files={file: _known(self.text((*at, "files", file), _DIGEST, "64 hex digits or unknown")) for file in files},
        )

    def _keys_of_source(self, at: KeyPath, source: str, given: Mapping[str, YamlValue]) -> None:
        wanted = {"hub": {"revision"}, "shipped": set[str](), "package": {"revision", "package"}}[source]
        for key in ("revision", "package"):
            if (key in given) != (key in wanted):
                had, need = ("one", "no") if key in given else ("nothing", "a")
                self.fail((*at, key) if key in given else at, f"{key}: expected {need} {key} for the source {source}, got {had}")

    def value(self, at: KeyPath) -> YamlValue:
        value: YamlValue = self.file.data
        for key in at:
            assert isinstance(value, dict) and isinstance(key, str)
            value = value[key]
        return value

    def mapping(self, at: KeyPath, known: tuple[str, ...], *, required: tuple[str, ...]) -> dict[str, YamlValue]:
        value = self.value(at)
        if not isinstance(value, dict):
            self.fail(at, f"expected a mapping of {listed(known)}, got {shown(value)}")
        for key in value:
            if key not in known:
                self.fail((*at, key), f"expected one of {listed(known)}, got the unknown key {shown(key)}{asked(key, known, before='; ')}")
        for key in required:
            if key not in value:
                self.fail(at, f"{key}: expected a value, got nothing")
        return value

    def named(self, parent: Mapping[str, YamlValue], at: KeyPath, pattern: re.Pattern[str], what: str) -> dict[str, YamlValue]:
        value = parent[str(at[-1])]
        if not isinstance(value, dict) or not value:
            self.fail(at, f"expected a mapping with at least one name, got {shown(value)}")
        for key in value:
            if not pattern.fullmatch(key):
                self.fail((*at, key), f"expected {what}, got {shown(key)}")
        return value

    def text(self, at: KeyPath, pattern: re.Pattern[str], what: str) -> str:
        value = self.value(at)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.fail(at, f"{at[-1]}: expected {what}, got {shown(value)}")
        return value

    def fail(self, at: KeyPath, problem: str) -> NoReturn:
        """Raise RecipeError for a key, with its line and the model around it."""
        around = f"{at[1]}: " if len(at) > 2 else ""
        raise RecipeError(f"{self.file.path}:{self.file.lines[at]}: {around}{problem}")


def _known(text: str) -> str | None:
    return None if text == UNKNOWN else text
