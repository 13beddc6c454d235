"""What differs between frozen runs, and between one and the files of now, is named key by key and file by file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.recipe import drift
from agentgym_cli.recipe.drift import Difference, brief, by_item, sentences
from agentgym_cli.recipe.freeze import Frozen, freeze
from agentgym_cli.recipe.resolve import resolve
from tests.recipe.builders import MANIFEST, RECIPE, has, write_recipe

SHA = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


def frozen_at(recipe: str, *overrides: str) -> Frozen:
    return freeze(resolve(recipe, overrides, survey=has()))


def without_package(found: list[Difference]) -> list[Difference]:
    """The program's own files are left out, since somebody may be editing them while the test runs."""
    return [each for each in found if each.item != "package"]


def check(frozen: Frozen) -> list[Difference]:
    return without_package(drift.check(frozen))


def diff(a: Frozen, b: Frozen) -> list[Difference]:
    return without_package(drift.diff(a, b))


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
    assert found[3] == Difference(item="config", name="horizon.turns", a=None, b="3", affects_results=True)
    assert found[6] == Difference(item="config", name="store.runs_dir", a='"runs"', b='"elsewhere"', affects_results=False)
    assert found[8].a is None
    assert [(each.key, each.a, each.b) for each in diff(b, a)] == [(each.key, each.b, each.a) for each in found]
    assert diff(a, a) == []


@pytest.mark.slow
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


@pytest.mark.slow
def test_promise_07_one_changed_letter_of_the_prompt_names_its_file(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, RECIPE.replace("prompt: {}", "prompt: {system: told.txt}"))
    (tmp_path / "told.txt").write_text("Act well.")
    before = frozen_at(recipe)
    (tmp_path / "told.txt").write_text("Act Well.")
    assert [each.key for each in diff(before, frozen_at(recipe))] == ["prompt: told.txt"]
    assert [each.key for each in check(before)] == ["prompt: told.txt"]


@pytest.mark.slow
def test_the_same_tasks_in_another_order_are_told_from_other_tasks(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path))
    head, first, second, *rest = MANIFEST.splitlines(keepends=True)
    (tmp_path / "tasks.csv").write_text("".join([head, second, first, *rest]))
    (found,) = check(frozen)
    assert (found.key, found.reordered) == ("tasks.train: order", True)
    assert sentences([found])[0].startswith("the same tasks in another order: tasks.train (frozen ")
    (tmp_path / "tasks.csv").write_text(MANIFEST.replace("cord", "rope"))
    (found,) = check(frozen)
    assert (found.key, found.reordered) == ("tasks.train: rows", False)


@pytest.mark.parametrize(
    ("override", "affects"),
    [
        ("name=other", False),
        ("evaluation.protocol=agenteval", False),
        ("engine.drift=error", False),
        ("tasks.allow_overlap=[test]", False),
        ("store.keep_tokens=all", False),
        ("about.source=a script", False),
        ("env.urls=[http://127.0.0.1:1]", False),
        ("seed=2", True),
        ("evaluation.samples_per_task=2", True),
        ("retry.causes=[timeout]", True),
    ],
)
def test_each_difference_says_whether_it_can_change_a_result(tmp_path: Path, override: str, affects: bool) -> None:
    recipe = write_recipe(tmp_path)
    found = diff(frozen_at(recipe), frozen_at(recipe, override))
    assert found
    assert {each.affects_results for each in found} == {affects}


def test_what_servers_said_is_compared_and_nobody_says_what_follows(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path))
    a, b = replace(frozen, observed={"http://a": "HTTP 200: x"}), replace(frozen, observed={"http://a": "HTTP 200: y"})
    assert diff(a, b) == [Difference(item="observed", name="http://a", a="HTTP 200: x", b="HTTP 200: y", affects_results=None)]
    assert check(a) == []


def test_a_harmless_difference_can_still_be_another_digest(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    before, after = frozen_at(recipe), frozen_at(recipe, "name=other")
    assert before.items["config"] != after.items["config"]


def test_drift_is_said_in_a_sentence_for_each_file_up_to_five() -> None:
    files = [Difference(item="package", name=f"f{number}.py", a=SHA, b=OTHER, affects_results=True) for number in range(7)]
    gone = Difference(item="model", name="config.json", a=SHA, b=None, affects_results=True)
    new = Difference(item="tokenizer", name="vocab.json", a=None, b=OTHER, affects_results=True)
    assert sentences([gone, *files, new]) == (
        "another model: config.json (frozen 0123456789ab, then gone)",
        *(f"another package: f{number}.py (frozen 0123456789ab, then fedcba987654)" for number in range(5)),
        "another package: 2 more",
        "another tokenizer: vocab.json (frozen not there, then fedcba987654)",
    )
    assert sentences([]) == ()
    assert len(sentences(files[:5])) == 5


def test_what_is_shown_of_a_value_is_short_and_printable() -> None:
    assert brief(SHA, nothing="-") == "0123456789ab"
    assert brief(None, nothing="gone") == "gone"
    assert brief('"agenteval"', nothing="-") == '"agenteval"'
    assert brief("a\x1b[2J", nothing="-") == "'a\\x1b[2J'"
    assert len(brief("x" * 10_000, nothing="-")) == 80


def test_every_item_is_checked_and_the_drifted_ones_are_named(tmp_path: Path) -> None:
    frozen = frozen_at(write_recipe(tmp_path))
    (tmp_path / "model" / "tokenizer.json").write_text("[]")
    found = check(frozen)
    assert {item: len(differences) for item, differences in by_item(frozen, found).items()} == dict.fromkeys(frozen.items, 0) | {"tokenizer": 1}
    stranger = replace(frozen, parts={item: part for item, part in frozen.parts.items() if item != "tokenizer"})
    assert [each.key for each in by_item(stranger, found)["tokenizer"]] == ["tokenizer: tokenizer.json"]
