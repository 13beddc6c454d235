"""What a policy says is what the dialect reads, or nothing starts; the instructions are those of the action format."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentgym_cli
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import file_digest
from agentgym_cli.verbs.freeze import freeze_recipe
from tests.recipe.builders import RECIPE, write_recipe
from tests.verbs.frozen_runs import prepared

DIALECTS = Path(agentgym_cli.__file__).parent / "env" / "dialects"
URLS = "env: {dialect: sciworld, urls: [http://127.0.0.1:9]}"
SCIWORLD = RECIPE.replace("env:\n  dialect: textcraft\n  world: textcraft", URLS)


@pytest.mark.parametrize(
    "begin",
    [
        lambda recipe: prepared(recipe, "prompt.action_format=code_block"),
        lambda recipe: freeze_recipe(recipe, ["prompt.action_format=code_block"], None),
    ],
)
def test_promise_09_an_action_format_that_the_dialect_does_not_read_is_refused_before_anything_starts(tmp_path: Path, begin) -> None:
    recipe = write_recipe(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RecipeError) as caught:
        begin(recipe)
    assert str(caught.value) == "prompt.action_format: expected one that dialect textcraft reads (plain, react), got 'code_block'"
    assert str(caught.value.hint).startswith("set prompt.action_format=")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("action_format", "name"),
    [("react", "sciworld.txt"), ("plain", "sciworld.txt"), ("function_call", "sciworld_functions.txt"), ("code_block", "sciworld_code.txt")],
)
def test_promise_07_the_instructions_are_those_of_the_action_format_and_part_of_the_digest(tmp_path: Path, action_format: str, name: str) -> None:
    run = prepared(write_recipe(tmp_path, SCIWORLD), f"prompt.action_format={action_format}")
    assert run.system_prompt == (DIALECTS / name).read_text()
    assert run.frozen.parts["prompt"] == {name: file_digest(DIALECTS / name)}


@pytest.mark.slow
def test_what_a_success_means_is_frozen_with_the_run(tmp_path: Path) -> None:
    rules = prepared(write_recipe(tmp_path, SCIWORLD)).frozen.parts["rules"]
    assert rules["the dialect's semantics"].startswith("all points of the task (score 100)")
    assert "the dialect's semantics" not in prepared(write_recipe(tmp_path)).frozen.parts["rules"]
