"""The JSON Schema that editors use, and that every key of a recipe says what it is."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.json_schema import recipe_schema
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.shape import fields_of, members, sections_of
from agentgym_cli.recipe.yaml import parse_yaml, read_yaml
from tests.recipe.builders import RECIPE

SCHEMA: dict[str, Any] = recipe_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
SHIPPED = sorted((shipped_root() / "recipes").rglob("*.yaml"))


def errors(text: str) -> list[str]:
    data = parse_yaml(text, Path("r.yaml")).data
    return [".".join(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(data)]


@pytest.mark.slow
def test_it_is_a_json_schema_and_plain_json() -> None:
    Draft202012Validator.check_schema(recipe_schema())
    assert json.loads(json.dumps(recipe_schema())) == recipe_schema()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_recipe_is_valid(path: Path) -> None:
    assert list(VALIDATOR.iter_errors(read_yaml(path).data)) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (RECIPE, []),
        ("extends: a.yaml\nprofiles: {gpu: {train: {steps: 3, algorithm: {clip: 0.1}}, horizon: {steps: [3]}}}", []),
        ("sed: 1", [""]),
        ("train: {stepz: 1}", ["train"]),
        ("train: {steps: 0}", ["train"]),
        ("profiles: {gpu: {seed: -1}}", ["profiles.gpu.seed"]),
        ("profiles: {gpu: {extends: a}}", ["profiles.gpu"]),
        ("profile_reason: x", [""]),
        ("horizon: {kind: stages, turns: 3}", ["horizon"]),
    ],
)
def test_what_it_accepts_and_refuses(text: str, where: list[str]) -> None:
    assert errors(text) == where


def _sections(section: type, path: str = "") -> Iterator[tuple[str, type]]:
    yield path, section
    for name, annotation in fields_of(section).items():
        inner = sections_of(annotation) or sections_of(getattr(getattr(annotation, "__origin__", annotation), "__args__", (None,))[0])
        for each in inner:
            yield from _sections(each, f"{path}.{name}".lstrip("."))


def _fields() -> Iterator[tuple[str, str, Any, str | None]]:
    """Path, name, annotation and description of every field of every section."""
    for path, section in _sections(Run):
        described = {name: info.description for name, info in section.__pydantic_fields__.items()}  # type: ignore[attr-defined]
        for name, annotation in fields_of(section).items():
            yield path, name, annotation, described[name]


def test_every_key_has_a_meaning() -> None:
    silent = [f"{path}.{name}" for path, name, annotation, said in _fields() if not said and name != "kind" and not sections_of(annotation)]
    assert silent == []


def test_every_key_that_may_be_null_says_what_null_means() -> None:
    unsaid = [f"{path}.{name}" for path, name, annotation, said in _fields() if NoneType in members(annotation) and "None" not in (said or "")]
    assert unsaid == []


def test_every_number_has_a_range() -> None:
    defs = SCHEMA["$defs"]
    assert isinstance(defs, dict)
    bounds = {"minimum", "exclusiveMinimum"}
    found: list[str] = []
    for title, section in defs.items():
        for name, value in section.get("properties", {}).items():
            for each in value.get("anyOf", [value]):
                numeric = each.get("type") in ("integer", "number") or each.get("items", {}).get("type") in ("integer", "number")
                if numeric and not bounds & (each.keys() | each.get("items", {}).keys()):
                    found.append(f"{title}.{name}")
    # a return may be any number, so the least return of a success, or of what is learned, may too
    assert sorted(found) == ["AgentEvolSpec.keep_at_least", "EpisodesSource.at_least", "RewardSpec.success_at_least"]


UNITS = re.compile(
    r"second|turn|token|step|GiB|GPU|episode|task|attempt|copy|machine|share|Machines|percent|thread|row|server|time|probability", re.IGNORECASE
)


def test_every_count_and_duration_says_what_of() -> None:
    plain = {"clip", "learning_rate", "critic_learning_rate", "weight_decay", "temperature", "scale", "seed", "max_gradient_norm", "discount",
             "gae_lambda", "alpha", "kl_coefficient", "entropy_coefficient", "value_clip", "success_at_least",
             "clip_high", "critic_weight_decay", "critic_max_gradient_norm", "importance_cap"}  # fmt: skip
    bare = [
        f"{path}.{name}"
        for path, name, annotation, said in _fields()
        if re.search(r"\b(int|float)\b", str(annotation)) and name not in plain and not UNITS.search(f"{name} {said}")
    ]
    assert bare == []


def test_defaults_are_of_their_own_schema() -> None:
    for title, section in SCHEMA["$defs"].items():
        for name, value in section.get("properties", {}).items():
            if "default" in value:
                schema = {**value, "$defs": SCHEMA["$defs"]}
                assert list(Draft202012Validator(schema).iter_errors(value["default"])) == [], f"{title}.{name}"
    assert dataclasses.is_dataclass(Run)
