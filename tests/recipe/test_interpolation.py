"""Environment variables in a recipe: an allow-list, never a secret, never another resolver."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.interpolation import allowed
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.run import Run
from tests.recipe.builders import RECIPE, has, write_recipe


def made(path: str, *overrides: str) -> Run:
    return resolve(path, overrides, survey=has()).run


def complaint(path: str, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        made(path, *overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "may"),
    [
        ("AGENTGYM_URL", True),
        ("AGENTGYM_RUNS_2", True),
        ("HOME", False),
        ("OPENAI_API_KEY", False),
        ("AGENTGYM_API_KEY", False),
        ("AGENTGYM_TOKEN", False),
        ("AGENTGYM_DB_PASSWORD", False),
        ("AGENTGYM_CREDENTIALS", False),
        ("AGENTGYM_", False),
        ("agentgym_url", False),
        ("XAGENTGYM_URL", False),
        ("AGENTGYM_URL\n", False),
    ],
)
def test_only_variables_of_ours_that_name_no_secret_are_allowed(name: str, may: bool) -> None:
    assert allowed(name) is may


def test_a_variable_is_put_in_its_place_and_typed_as_yaml_where_it_is_the_whole_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_PORT", "36005")
    monkeypatch.setenv("AGENTGYM_RATE", "5e-7")
    text = RECIPE.replace("  world: textcraft", "  urls: ['http://127.0.0.1:${oc.env:AGENTGYM_PORT}/a']").replace("1e-3", "'${oc.env:AGENTGYM_RATE}'")
    run = made(write_recipe(tmp_path, text), "seed=${oc.env:AGENTGYM_PORT}", "description=port ${oc.env:AGENTGYM_PORT}")
    assert run.env.urls == ("http://127.0.0.1:36005/a",)
    assert run.train is not None
    assert (run.train.learning_rate, run.seed, run.description) == (5e-7, 36005, "port 36005")


def test_a_value_that_a_variable_brings_is_checked_at_the_line_that_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_SEED", "minus one")
    path = write_recipe(tmp_path, RECIPE.replace("seed: 1", "seed: ${oc.env:AGENTGYM_SEED}"))
    assert complaint(path) == f"{path}:2: seed: expected an integer >= 0, got 'minus one'"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("${oc.env:AGENTGYM_UNSET}", "expected AGENTGYM_UNSET to be set in the environment, got nothing"),
        (
            "${oc.env:AGENTGYM_UNSET,fallback}",
            "expected a variable AGENTGYM_... that names no key, token, secret or password, got 'AGENTGYM_UNSET,fallback'",
        ),
        ("${oc.env:AGENTGYM_API_KEY}", "expected a variable AGENTGYM_... that names no key, token, secret or password, got 'AGENTGYM_API_KEY'"),
        ("${oc.decode:AGENTGYM_SET}", "only ${oc.env:AGENTGYM_NAME} is interpolated in a recipe"),
        ("${seed}", "only ${oc.env:AGENTGYM_NAME} is interpolated in a recipe"),
        ("${oc.env:AGENTGYM_SET} ${seed}", "only ${oc.env:AGENTGYM_NAME} is interpolated in a recipe"),
        ("${oc.env:${oc.env:AGENTGYM_SET}}", "only ${oc.env:AGENTGYM_NAME} is interpolated in a recipe"),
        ("${", "only ${oc.env:AGENTGYM_NAME} is interpolated in a recipe"),
    ],
)
def test_promise_08_no_other_interpolation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str) -> None:
    monkeypatch.setenv("AGENTGYM_API_KEY", "secret")
    monkeypatch.setenv("AGENTGYM_SET", "HOME")
    path = write_recipe(tmp_path, RECIPE.replace("name: toy", f"name: toy\ndescription: '{text}'"))
    said = complaint(path)
    assert said.startswith(f"{path}:2: description: ")
    assert why in said
    assert "secret" not in said.replace("token, secret or", "")


def test_what_a_variable_holds_is_never_interpolated_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_NESTED", "${oc.env:HOME}")
    path = write_recipe(tmp_path, RECIPE.replace("name: toy", "name: toy\ndescription: ${oc.env:AGENTGYM_NESTED}"))
    assert complaint(path).startswith(f"{path}:2: description: expected a variable AGENTGYM_...")


def test_a_variable_makes_no_mapping_and_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_TRAIN", "{steps: 3}")
    path = write_recipe(tmp_path)
    assert "train: expected null or a mapping of steps" in complaint(path, "train=${oc.env:AGENTGYM_TRAIN}")
    assert made(path, "description=${oc.env:AGENTGYM_TRAIN}").description == "{steps: 3}"


def test_keys_are_not_interpolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTGYM_KEYNAME", "seed")
    assert "expected" in complaint(write_recipe(tmp_path, RECIPE + "'${oc.env:AGENTGYM_KEYNAME}': 3\n"))
