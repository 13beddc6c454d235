"""Named files are found beside the recipe, in the current folder, or in what the package ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe import data
from agentgym_cli.recipe.data import find_data, shipped_names, shipped_root, try_find


def test_a_shipped_recipe_is_found_from_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = find_data("recipes/textcraft_grpo.yaml")
    assert found == shipped_root() / "recipes" / "textcraft_grpo.yaml"
    assert find_data("tasks/textcraft_laptop.csv", beside=[found.parent]).is_file()
    assert find_data("tasks/textcraft_laptop.csv") == found.parent / "tasks" / "textcraft_laptop.csv"


def test_beside_the_recipe_comes_before_the_current_folder_and_that_before_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "recipes/textcraft_grpo.yaml"
    here, near = tmp_path / "here", tmp_path / "near"
    for folder in (here, near):
        (folder / "recipes").mkdir(parents=True)
        (folder / name).touch()
    monkeypatch.chdir(here)
    assert find_data(name, beside=[tmp_path / "none", near]) == near / name
    assert find_data(name, beside=[tmp_path / "none"]) == Path(name)
    monkeypatch.chdir(tmp_path)
    assert find_data(name) == shipped_root() / name


def test_absolute_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    assert find_data(str(path), beside=[Path("/nowhere")]) == path


@pytest.mark.parametrize("name", ["", "no\0where", "nowhere"])
def test_what_is_nowhere_is_none(name: str) -> None:
    assert try_find(name) is None


def test_promise_08_a_missing_data_file_names_the_nearest_shipped_one() -> None:
    with pytest.raises(RecipeError) as caught:
        find_data("tasks/textcraft_labtop.csv", where="tasks.manifest")
    expected = "tasks.manifest: expected a file or folder beside the recipe, in the current folder or shipped, got 'tasks/textcraft_labtop.csv'"
    assert str(caught.value) == expected
    assert caught.value.hint == "did you mean tasks/textcraft_laptop.csv?"


def test_an_installed_package_looks_into_its_own_data_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "agentgym_cli"
    (package / "_data" / "recipes" / "tasks").mkdir(parents=True)
    (package / "_data" / "recipes" / "a.yaml").touch()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "b.yaml").touch()
    monkeypatch.setattr(data, "PACKAGE", package)
    monkeypatch.chdir(package)
    assert find_data("recipes/a.yaml") == package / "_data" / "recipes" / "a.yaml"
    assert try_find("recipes/b.yaml") is None
    assert shipped_names() == ["a.yaml", "recipes/a.yaml", "recipes/tasks", "tasks"]
