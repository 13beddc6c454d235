"""A frozen run is read back whole, and refused when it was edited, cut, blown up or written by another version."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.frozen_file import parse_frozen, read_frozen
from agentgym_cli.recipe.resolve import resolve
from tests.recipe.builders import has, write_recipe


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    return freeze(resolve(write_recipe(tmp_path_factory.mktemp("toy")), survey=has())).to_json()


def test_a_frozen_run_is_read_back_whole(tmp_path: Path) -> None:
    overrides = ("train.learning_rate=1e-7", "description=naïve ☃", "train.steps=10")
    frozen = replace(freeze(resolve(write_recipe(tmp_path), overrides, survey=has())), observed={"http://127.0.0.1:1": "HTTP 200: ☃"})
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


def test_what_was_observed_is_beside_the_digest_and_not_in_it(whole: str) -> None:
    frozen = parse_frozen(whole, where="f.json")
    asked = replace(frozen, observed={"http://127.0.0.1:1": "not reached: nobody there"})
    assert asked.digest == frozen.digest
    assert parse_frozen(asked.to_json(), where="f.json").observed == asked.observed


def test_a_frozen_run_that_cannot_be_put_in_place_leaves_nothing_behind(whole: str, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        parse_frozen(whole, where="f.json").write(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: "", "expected a frozen run, got: "),
        (lambda text: text[:-1], "expected a frozen run, got: "),
        (lambda text: "[1]", "schema: expected version 2 of a frozen run, got none"),
        (lambda text: text.replace('"schema":2', '"schema":1'), "schema: expected version 2 of a frozen run, got 1"),
        (lambda text: text.replace('"schema":2', '"schema":3'), "schema: expected version 2 of a frozen run, got 3"),
        (lambda text: text.replace('"schema":2', '"schema":true'), "schema: expected version 2 of a frozen run, got true"),
        (lambda text: text.replace('"schema":2', '"schema":2.0'), "schema: expected version 2 of a frozen run, got 2.0"),
        (lambda text: text.replace('"observed":{}', '"observed":{"a":1}'), "observed.a: expected another value"),
        (lambda text: text.replace('"observed":{},', ""), "observed: expected another value"),
        (lambda text: text.replace('"name":"toy"', '"name":"\\ud800"'), "expected another value (Input should be a valid string, unable to parse"),
        (lambda text: text.replace('"seed":1,', '"seed":1,"seed":2,'), "expected a frozen run, got: a key that is there twice"),
        (lambda text: text.replace('"clip":0.2', '"clip":NaN'), "expected a frozen run, got: the number NaN"),
        (lambda text: text.replace('"clip":0.2', '"clip":2.0'), "config.train.algorithm.clip: expected another value"),
        (lambda text: text.replace('"clip":', '"clap":'), "config.train.algorithm.clap: expected another value"),
        (lambda text: text.replace('"seed":1,', '"seed":2,'), "expected content that matches its digest, got another config, seeds"),
        (lambda text: text.replace('"count":"2"', '"count":"3"'), "expected content that matches its digest, got another tasks.train"),
        (lambda text: text.replace('"digest":"', '"digest":"0', 1), "expected content that matches its digest, got another digest"),
    ],
)
def test_promise_08_a_frozen_run_that_was_edited_or_is_unknown_is_refused(whole: str, edit: Any, message: str) -> None:
    text = edit(whole)
    assert text != whole
    with pytest.raises(RecipeError) as caught:
        parse_frozen(text, where="f.json")
    assert str(caught.value).startswith(f"f.json: {message}")


@pytest.mark.parametrize(("version", "hint"), [(1, "freeze the recipe again"), (3, "a newer agentgym wrote it")])
def test_another_version_of_the_file_is_refused_with_what_to_do(whole: str, version: int, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_frozen(whole.replace('"schema":2', f'"schema":{version}'), where="f.json")
    assert hint in str(caught.value.hint)


def test_promise_11_a_frozen_run_of_100_megabytes_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "frozen.json"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(RecipeError, match=r"frozen\.json: expected at most 16777216 bytes, got more"):
        read_frozen(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema":' * 5_000, '{"schema":2,"config":' + "[" * 900 + "]" * 900 + "}"])
def test_promise_11_a_frozen_run_without_end_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match=r"^f\.json: "):
        parse_frozen(text, where="f.json")


def test_a_frozen_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none\.json: expected a readable file, got: No such file"):
        read_frozen(tmp_path / "none.json")
