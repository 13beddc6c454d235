"""What a verb that takes recipes alone says to a frozen run."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.verbs.target import require_recipe
from tests.verbs.frozen_runs import started, toy


def test_a_frozen_run_is_refused_by_the_recipe_that_it_was_frozen_from(tmp_path: Path) -> None:
    recipe = toy(tmp_path)
    folder = started(recipe).folder
    for target in (folder, folder / "frozen.json"):
        with pytest.raises(RecipeError) as refused:
            require_recipe(str(target), "capacity")
        assert refused.value.message == f"{target}: expected a recipe, got a frozen run"
        assert refused.value.hint is not None and refused.value.hint.startswith(f"agentgym capacity {recipe}")


def test_a_recipe_and_what_is_not_there_are_left_to_others(tmp_path: Path) -> None:
    require_recipe(toy(tmp_path), "probe")
    require_recipe(str(tmp_path / "none.json"), "probe")
