"""A frozen run digests the whole experiment, item by item, and nothing else."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

import agentgym_cli
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import canonical_json
from agentgym_cli.recipe.data import find_data, shipped_root
from agentgym_cli.recipe.drift import Difference, check, diff
from agentgym_cli.recipe.freeze import OUTSIDE_DIGEST, Frozen, config_of, freeze
from agentgym_cli.recipe.frozen_file import parse_frozen, read_frozen
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.yaml import read_yaml
from tests.recipe.builders import MANIFEST, RECIPE, has, write_recipe

ITEMS = {"config", "seeds", "tasks.train", "tasks.evaluation.test", "dialect", "prompt", "model", "lock", "package"}


def frozen_at(recipe: str, *overrides: str) -> Frozen:
    return freeze(resolve(recipe, overrides, survey=has()))


def changed(a: Frozen, b: Frozen) -> set[str]:
    """Items that differ; the program's own files are left out, since somebody may be editing them while the test runs."""
    return {item for item in a.items.keys() | b.items.keys() if item != "package" and a.items.get(item) != b.items.get(item)}


def test_promise_07_the_digest_covers_every_item_of_the_experiment(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path))
    assert set(frozen.items) == ITEMS
    assert all(len(digest) == 64 for digest in [*frozen.items.values(), frozen.digest])
    assert set(frozen.parts["model"]) == {"config.json", "tokenizer.json"}
    assert set(frozen.parts["dialect"]) == {"dialect", "prompt"}
    assert set(frozen.parts["lock"]) == {"cpu.txt"}
    assert {"agentgym_cli/env/dialects/textcraft.txt", "agentgym_cli/recipe/freeze.py", "agentgym_envs/__init__.py"} <= set(frozen.parts["package"])
    assert frozen.parts["tasks.train"]["count"] == "2"


def test_promise_07_each_item_changes_with_its_content_and_with_nothing_else(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, RECIPE.replace("prompt: {}", "prompt: {system: told.txt}").replace("dialect: textcraft", "dialect: own/d.yaml"))
    shutil.copytree(find_data("agentgym_cli/env/dialects", beside=[Path(agentgym_cli.__file__).parent.parent]), tmp_path / "own")
    (tmp_path / "own" / "textcraft.yaml").rename(tmp_path / "own" / "d.yaml")
    (tmp_path / "told.txt").write_text("act")
    before = frozen_at(recipe)
    changes = {
        "prompt": ("told.txt", "act well"),
        "model": ("model/tokenizer.json", "{ }"),
        "tasks.evaluation.test": ("tasks.csv", MANIFEST.replace("door", "doors")),
        "dialect": ("own/textcraft.txt", "another prompt"),
    }
    for item, (name, text) in changes.items():
        path = tmp_path / name
        was = path.read_text()
        path.write_text(text)
        assert changed(before, frozen_at(recipe)) == {item}
        path.write_text(was)
    assert changed(before, frozen_at(recipe, "seed=2")) == {"config", "seeds"}
    assert changed(before, frozen_at(recipe, "train.steps=21")) == {"config"}
    assert changed(before, frozen_at(recipe)) == set()


def test_a_task_of_another_split_changes_nothing(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    before = frozen_at(recipe)
    (tmp_path / "tasks.csv").write_text(MANIFEST.replace("gate", "gates"))
    assert changed(before, frozen_at(recipe)) == set()


def _mutated(value: Any) -> list[Any]:
    """Other values for a leaf, of which at least one is usually valid."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * 0.5, value + 0.25]
    if isinstance(value, str):
        return [f"{value}x", "warn", "error", "verl", "seed", "chatml", "words", "plain", "3-4", "token", "gains"]
    return [1, "x", "X", "3-4", ["http://a"]] if value is None else [[*value, "x"], [*value, 3]]


def _set(data: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    if isinstance(data, list):
        return [_set(inner, path[1:], value) if number == int(path[0]) else inner for number, inner in enumerate(data)]
    return {key: _set(inner, path[1:], value) if key == path[0] else inner for key, inner in data.items()}


def _leaf_paths(data: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(data, dict):
        return [leaf for key, inner in data.items() for leaf in _leaf_paths(inner, (*path, key))]
    if isinstance(data, list) and data:
        return [leaf for number, inner in enumerate(data) for leaf in _leaf_paths(inner, (*path, str(number)))]
    return [(path, data)]


def test_promise_07_any_leaf_of_the_config_changes_the_digest_except_the_declared_ones(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path))
    config = json.loads(canonical_json(config_of(frozen.run)))
    adapter = TypeAdapter(Run)
    tried: set[str] = set()
    for path, value in _leaf_paths(config):
        for other in (each for each in _mutated(value) if each != value):
            try:
                run = adapter.validate_json(canonical_json(_set(config, list(path), other)))
            except ValidationError:
                continue
            key = ".".join(path)
            tried.add(key)
            assert (dataclasses.replace(frozen, run=run).digest == frozen.digest) == (key in OUTSIDE_DIGEST), key
            break
    fixed = {"horizon.kind", "train.algorithm.kind"}
    assert {".".join(path) for path, _ in _leaf_paths(config)} - tried <= fixed | {"warm_start"}


def _shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: _shuffled(value[key], order) for key in keys}
    return [_shuffled(inner, order) for inner in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    write_recipe(folder)
    return folder


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_the_order_of_keys_and_the_way_of_writing_change_nothing(shared: Path, seed: int) -> None:
    data = _shuffled(read_yaml(shared / "toy.yaml").data, random.Random(seed))
    (shared / "other.yaml").write_text(json.dumps(data))
    assert changed(frozen_at(str(shared / "other.yaml")), frozen_at(str(shared / "toy.yaml"))) == set()


def test_a_frozen_run_is_read_back_whole(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path), "train.learning_rate=1e-7", "description=naïve ☃", "train.steps=10")
    path = tmp_path / "frozen.json"
    frozen.write(path)
    assert read_frozen(path) == frozen
    assert read_frozen(path).to_json() == frozen.to_json()
    assert parse_frozen(frozen.to_json(), where="column").digest == frozen.digest
    assert len(frozen.warnings) == 1
    document = json.loads(path.read_text())
    assert document["config"]["warm_start"] is None
    assert list(document) == sorted(document)
    assert sorted(tmp_path.glob(".frozen*")) == []


def test_floats_are_written_exactly() -> None:
    assert canonical_json({"b": [5e-7, 0.1, 1.0, None], "a": "ü"}) == '{"a":"ü","b":[5e-07,0.1,1.0,null]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: "", "expected a frozen run, got: "),
        (lambda text: text[:-1], "expected a frozen run, got: "),
        (lambda text: "[1]", "schema: expected version 1 of a frozen run, got none"),
        (lambda text: text.replace('"schema":1', '"schema":2'), "schema: expected version 1 of a frozen run, got 2"),
        (lambda text: text.replace('"schema":1', '"schema":true'), "schema: expected version 1 of a frozen run, got true"),
        (lambda text: text.replace('"seed":1,', '"seed":1,"seed":2,'), "expected a frozen run, got: a key that is there twice"),
        (lambda text: text.replace('"clip":0.2', '"clip":NaN'), "expected a frozen run, got: the number NaN"),
        (lambda text: text.replace('"clip":0.2', '"clip":2.0'), "config.train.algorithm.clip: expected another value"),
        (lambda text: text.replace('"clip":', '"clap":'), "config.train.algorithm.clap: expected another value"),
        (lambda text: text.replace('"seed":1,', '"seed":2,'), "expected content that matches its digest, got another config, seeds"),
        (lambda text: text.replace('"count":"2"', '"count":"3"'), "expected content that matches its digest, got another tasks.train"),
        (lambda text: text.replace('"digest":"', '"digest":"0', 1), "expected content that matches its digest, got another digest"),
    ],
)
def test_promise_08_a_frozen_run_that_was_edited_or_is_unknown_is_refused(shared: Path, edit: Any, message: str) -> None:
    text = edit(frozen_at(str(shared / "toy.yaml")).to_json())
    with pytest.raises(RecipeError) as caught:
        parse_frozen(text, where="f.json")
    assert str(caught.value).startswith(f"f.json: {message}")


def test_the_difference_names_every_leaf_and_every_file(tmp_path: Path) -> None:
    a = frozen_at(write_recipe(tmp_path / "a"))
    recipe = write_recipe(tmp_path / "b", RECIPE.replace("seed: 1", "seed: 1\ndescription: other"))
    (tmp_path / "b" / "model" / "config.json").write_text('{"layers": 4}')
    (tmp_path / "b" / "model" / "extra.json").write_text("{}")
    b = frozen_at(recipe, "horizon={kind: fixed, turns: 3}", "store.runs_dir=elsewhere")
    found = diff(a, b)
    assert [(each.key, each.affects_results) for each in found] == [
        ("description", False),
        ("horizon.kind", True),
        ("horizon.steps.0", True),
        ("horizon.turns", True),
        ("horizon.turns.0", True),
        ("horizon.turns.1", True),
        ("store.runs_dir", False),
        ("model: config.json", True),
        ("model: extra.json", True),
    ]
    assert found[3] == Difference(key="horizon.turns", a=None, b="3", affects_results=True)
    assert found[6] == Difference(key="store.runs_dir", a='"runs"', b='"elsewhere"', affects_results=False)
    assert found[8].a is None
    assert [(each.key, each.a, each.b) for each in diff(b, a)] == [(each.key, each.b, each.a) for each in found]
    assert diff(a, a) == []


def test_a_check_names_what_has_changed_on_disk_since(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path))
    assert check(frozen) == []
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "tasks.csv").unlink()
    found = check(frozen)
    assert [each.key for each in found] == [
        "model: config.json",
        "tasks.evaluation.test: count",
        "tasks.evaluation.test: rows",
        "tasks.train: count",
        "tasks.train: rows",
    ]
    assert found[0].b is not None
    assert [each.b for each in found[1:]] == [None] * 4


def test_a_hub_model_is_frozen_by_name_and_revision(tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path, RECIPE.replace("path: model", "path: Qwen/Qwen2.5-7B-Instruct, revision: abc").replace("kind: local", "kind: verl")
    )
    pinned = frozen_at(recipe)
    assert pinned.parts["model"] == {"hub": "Qwen/Qwen2.5-7B-Instruct", "revision": "abc"}
    assert pinned.warnings == ()
    (warning,) = frozen_at(recipe, "policy.model.revision=null").warnings
    assert warning.startswith("policy.model.revision: expected the pinned revision of Qwen/Qwen2.5-7B-Instruct, got null")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.model.path=Qwen/Qwen2.5-7B-Instruct", "policy.model.path: expected a file or folder"),
        ("policy.model.path=tasks.csv", "policy.model.path: expected a folder with config.json and tokenizer.json, got the file"),
        ("tasks.manifest=nowhere.csv", "tasks.manifest: expected a file or folder"),
        ("prompt.system=nowhere.txt", "prompt.system: expected a file or folder"),
        ("env.dialect=own/nowhere.yaml", "env.dialect: expected a file or folder"),
        ("env.dialect=textkraft", "env.dialect: expected one of "),
        ("engine.stack=gpu", "engine.stack: expected one of the stacks "),
    ],
)
def test_files_that_a_run_needs_and_that_are_nowhere_are_named(shared: Path, override: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        frozen_at(str(shared / "toy.yaml"), override)
    assert str(caught.value).startswith(message)


PRINT_DIGEST = """
import sys
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.resolve import resolve
print(freeze(resolve(sys.argv[1], ["profile=default"])).digest)
"""


def digest_elsewhere(recipe: str, *, cwd: Path, hash_seed: str, path: Path) -> str:
    variables = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(path)}
    command = [sys.executable, "-c", PRINT_DIGEST, recipe]
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_promise_07_the_digest_is_the_same_in_another_place_folder_and_process(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    recipe = write_recipe(here)
    write_recipe(there)
    clone = tmp_path / "clone"
    root = Path(agentgym_cli.__file__).parent.parent
    unwanted = shutil.ignore_patterns("__pycache__", "_data")
    shutil.copytree(root / "agentgym_cli", clone / "agentgym_cli", ignore=unwanted)
    shutil.copytree(root / "envs" / "agentgym_envs", clone / "agentgym_envs", ignore=unwanted)
    shutil.copytree(shipped_root() / "lockfiles", clone / "agentgym_cli" / "_data" / "lockfiles")
    digests = [
        digest_elsewhere(recipe, cwd=tmp_path, hash_seed="1", path=clone),
        digest_elsewhere("toy.yaml", cwd=there, hash_seed="2", path=clone),
    ]
    assert digests[0] == digests[1]
    assert len(digests[0]) == 64
    assert digests[0] == frozen_at(recipe).digest, "the checkout changed while the test ran, or the digest depends on its place"
