"""A frozen run digests the whole experiment, item by item, and nothing else."""

from __future__ import annotations

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

import agentgym_cli
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import file_digest
from agentgym_cli.recipe.data import shipped_root
from agentgym_cli.recipe.freeze import Frozen, freeze
from agentgym_cli.recipe.models import find_model_lock
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.yaml import read_yaml
from tests.recipe.builders import MANIFEST, RECIPE, has, write_recipe

ITEMS = {
    "config", "seeds", "tasks.train", "tasks.evaluation.test", "dialect", "prompt", "rules", "model", "tokenizer", "data", "lock", "package"
}  # fmt: skip
HUB = (
    RECIPE.replace("path: model", "path: Qwen/Qwen2.5-7B-Instruct, revision: abc").replace("kind: local", "kind: verl")
    + "cluster: {gpus_per_node: 0}\n"
)
DIALECTS = Path(agentgym_cli.__file__).parent / "env" / "dialects"


def frozen_at(recipe: str, *overrides: str) -> Frozen:
    return freeze(resolve(recipe, overrides, survey=has()))


def changed(a: Frozen, b: Frozen) -> set[str]:
    """Items that differ; the program's own files are left out, since somebody may be editing them while the test runs."""
    return {item for item in a.items.keys() | b.items.keys() if item != "package" and a.items.get(item) != b.items.get(item)}


def test_promise_07_the_digest_covers_every_item_of_the_experiment(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path))
    assert set(frozen.items) == ITEMS
    assert all(len(digest) == 64 for digest in [*frozen.items.values(), frozen.digest])
    assert frozen.parts["dialect"] == {"textcraft.yaml": file_digest(DIALECTS / "textcraft.yaml")}
    assert frozen.parts["prompt"] == {"textcraft.txt": file_digest(DIALECTS / "textcraft.txt")}
    assert set(frozen.parts["model"]) == {"config.json"}
    assert set(frozen.parts["tokenizer"]) == {"tokenizer.json"}
    assert set(frozen.parts["lock"]) == {"cpu.txt"}
    assert {"agentgym_cli/env/dialects/textcraft.txt", "agentgym_cli/recipe/freeze.py", "agentgym_envs/__init__.py"} <= set(frozen.parts["package"])
    assert frozen.parts["tasks.train"]["count"] == "2"


def test_the_rules_are_those_of_success_done_and_the_verifier_and_the_outcome_table(tmp_path: Path) -> None:
    assert frozen_at(write_recipe(tmp_path)).parts["rules"] == {
        "the dialect's success": '{"at_least":1,"reward_kind":"terminal"}',
        "the dialect's done": '{"done":"/done","sticky":false}',
        "the dialect's verifier": "null",
        "outcome table": file_digest(Path(agentgym_cli.__file__).parent / "episode" / "outcome.py"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "items"),
    [
        ("told.txt", "act", "acT", {"prompt"}),
        ("model/config.json", "3", "4", {"model"}),
        ("model/tokenizer.json", "{}", "{ }", {"tokenizer"}),
        ("tasks.csv", "door", "doors", {"tasks.evaluation.test"}),
        ("own/d.yaml", "name: textcraft", "name:  textcraft", {"dialect"}),
        ("own/d.yaml", "at_least: 1", "at_least: 0.5", {"dialect", "rules"}),
        ("own/textcraft.txt", "a", "b", set()),
    ],
)
def test_promise_07_each_item_changes_with_its_content_and_with_nothing_else(tmp_path: Path, name: str, old: str, new: str, items: set[str]) -> None:
    recipe = write_recipe(tmp_path, RECIPE.replace("prompt: {}", "prompt: {system: told.txt}").replace("dialect: textcraft", "dialect: own/d.yaml"))
    own_dialect(tmp_path)
    (tmp_path / "told.txt").write_text("act")
    before = frozen_at(recipe)
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1))
    assert changed(before, frozen_at(recipe)) == items


def own_dialect(folder: Path) -> None:
    """A dialect of one's own in ``own/d.yaml``, with its prompt ``own/textcraft.txt`` beside it."""
    (folder / "own").mkdir()
    shutil.copy(DIALECTS / "textcraft.yaml", folder / "own" / "d.yaml")
    shutil.copy(DIALECTS / "textcraft.txt", folder / "own" / "textcraft.txt")


@pytest.mark.slow
def test_promise_07_the_dialects_own_prompt_counts_where_the_recipe_has_none(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, RECIPE.replace("dialect: textcraft", "dialect: own/d.yaml"))
    own_dialect(tmp_path)
    before = frozen_at(recipe)
    assert (set(before.parts["dialect"]), set(before.parts["prompt"])) == ({"own/d.yaml"}, {"textcraft.txt"})
    (tmp_path / "own" / "textcraft.txt").write_text((tmp_path / "own" / "textcraft.txt").read_text().replace("e", "E", 1))
    assert changed(before, frozen_at(recipe)) == {"prompt"}
    assert frozen_at(recipe, "prompt.system=none").parts["prompt"] == {"none": "says nothing"}


@pytest.mark.slow
def test_config_and_seeds_follow_the_recipe_and_freezing_again_changes_nothing(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    before = frozen_at(recipe)
    assert changed(before, frozen_at(recipe, "seed=2")) == {"config", "seeds"}
    assert changed(before, frozen_at(recipe, "train.steps=21")) == {"config"}
    assert changed(before, frozen_at(recipe, "budgets.response_tokens=100")) == {"config", "rules"}
    again = frozen_at(recipe)
    assert (again.run, again.items | {"package": ""}) == (before.run, before.items | {"package": ""})


def test_a_dialect_that_names_no_prompt_is_an_error(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, RECIPE.replace("dialect: textcraft", "dialect: d.yaml"))
    (tmp_path / "d.yaml").write_text("name: textcraft\n")
    with pytest.raises(RecipeError, match=r"d\.yaml: prompt: expected the name of a file beside the dialect, got null"):
        frozen_at(recipe)


def test_the_same_tasks_in_another_order_change_the_order_alone(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    before = frozen_at(recipe)
    head, first, second, *rest = MANIFEST.splitlines(keepends=True)
    after = frozen_at(write_recipe(tmp_path, manifest="".join([head, second, first, *rest])))
    assert changed(before, after) == {"tasks.train"}
    assert {name for name in ("count", "rows", "order") if before.parts["tasks.train"][name] != after.parts["tasks.train"][name]} == {"order"}


@pytest.mark.slow
def test_a_task_of_another_split_changes_nothing(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    before = frozen_at(recipe)
    (tmp_path / "tasks.csv").write_text(MANIFEST.replace("gate", "gates"))
    assert changed(before, frozen_at(recipe)) == set()


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


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(0, 2**32))
def test_the_order_of_keys_and_the_way_of_writing_change_nothing(shared: Path, seed: int) -> None:
    data = _shuffled(read_yaml(shared / "toy.yaml").data, random.Random(seed))
    (shared / "other.yaml").write_text(json.dumps(data))
    assert changed(frozen_at(str(shared / "other.yaml")), frozen_at(str(shared / "toy.yaml"))) == set()


def test_a_hub_model_is_frozen_by_name_and_revision(tmp_path: Path) -> None:
    pinned = frozen_at(write_recipe(tmp_path, HUB))
    assert pinned.parts["model"] == pinned.parts["tokenizer"] == {"hub": "Qwen/Qwen2.5-7B-Instruct", "revision": "abc"}
    assert pinned.warnings == ()


def test_a_hub_model_of_the_locked_revision_is_frozen_with_the_digests_of_its_files(tmp_path: Path) -> None:
    lock = find_model_lock("Qwen/Qwen2.5-7B-Instruct")
    assert lock is not None
    parts = frozen_at(write_recipe(tmp_path, HUB), f"policy.model.revision={lock.revision}").parts
    assert {**parts["model"], **parts["tokenizer"]} == {"hub": lock.name, "revision": lock.revision} | lock.files
    assert {"config.json", "model-00001-of-00004.safetensors"} <= set(parts["model"])
    assert {"merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"} == set(parts["tokenizer"]) - {"hub", "revision"}


@pytest.mark.slow
def test_a_hub_model_or_tokenizer_that_is_not_pinned_is_a_warning(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, HUB)
    (warning,) = frozen_at(recipe, "policy.model.revision=null").warnings
    assert warning.startswith("policy.model.revision: expected the pinned revision of Qwen/Qwen2.5-7B-Instruct, got null")
    assert "lockfiles/models.yaml has a09a35458c702b33eeacc393d103063234e8bc28" in warning
    (warning,) = frozen_at(recipe, "policy.model.tokenizer=some/tokenizer").warnings
    assert warning.startswith("policy.model.tokenizer: expected a folder, got the hub name some/tokenizer")


@pytest.mark.slow
def test_a_tokenizer_and_a_chat_template_of_their_own_are_frozen(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, HUB.replace("revision: abc", "revision: abc, tokenizer: tok, chat_template: chat.jinja"))
    (tmp_path / "tok").mkdir()
    (tmp_path / "chat.jinja").write_text("{{ x }}")
    with pytest.raises(RecipeError, match=r"policy\.model\.tokenizer: expected a folder with tokenizer\.json, got .*tok' without one"):
        frozen_at(recipe)
    (tmp_path / "tok" / "tokenizer.json").write_text("{}")
    (tmp_path / "tok" / "README.md").write_text("no tokenizer's file")
    before = frozen_at(recipe)
    assert set(before.parts["tokenizer"]) == {"tokenizer.json", "chat template chat.jinja"}
    (tmp_path / "chat.jinja").write_text("{{ y }}")
    assert changed(before, frozen_at(recipe)) == {"tokenizer"}


def test_a_step_larger_than_the_list_it_draws_from_is_a_warning(tmp_path: Path) -> None:
    # the manifest has two tasks to train on
    (warning,) = frozen_at(write_recipe(tmp_path), "train.tasks_per_step=3").warnings
    assert warning.startswith(
        "train.tasks_per_step: expected at most the 2 tasks of the training split, got 3: a step draws some of them more than once"
    )


def test_overlaps_that_others_reported_are_repeated_as_warnings(tmp_path: Path) -> None:
    note = "about: {reported_overlaps: [{split: test, tasks: 61, source: a user's count}]}\n"
    (warning,) = frozen_at(write_recipe(tmp_path, RECIPE + note)).warnings
    assert "split test shares 61 tasks with training" in warning


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
    assert f"override '{override}': {message}" in str(caught.value)


def test_everything_that_a_recipe_names_and_that_cannot_be_used_is_named_at_once_with_its_line(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, RECIPE.replace("prompt: {}", "prompt: {system: no.txt}").replace("stack: cpu", "stack: cpuu"))
    with pytest.raises(RecipeError) as caught:
        frozen_at(recipe, "tasks.manifest=no.csv")
    assert [line.strip().partition(": expected")[0] for line in str(caught.value).splitlines()] == [
        "3 things that the recipe names cannot be used",
        f"{recipe}:10: prompt.system",
        f"{recipe}:22: engine.stack",
        "override 'tasks.manifest=no.csv': tasks.manifest",
    ]


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
