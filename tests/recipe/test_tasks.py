"""Splits are selected by name, by number or by a published list, strictly; where a list is not there, its stand-in is said aloud."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe import tasks
from agentgym_cli.recipe.drift import check
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.manifest import TaskRow, read_manifest
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.world import SplitSpec, TasksSpec
from agentgym_cli.recipe.tasks import NOT_PINNED, Pool, TaskLists, select, select_tasks
from tests.recipe.builders import MANIFEST, RECIPE, has, write_recipe

HEADER = "index,split,category,goal,digest\n"


def manifest(folder: Path, text: str) -> Path:
    path = folder / "m.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def numbers(rows: tuple[TaskRow, ...]) -> list[int]:
    return [row.index for row in rows]


def pool(folder: Path, text: str = MANIFEST, *, size: int | None = None) -> Pool:
    """What a manifest with this text gives to select from."""
    return Pool(manifest={row.index: row for row in read_manifest(manifest(folder, text))}, size=size, env="toy", beside=[folder])


def unpinned(folder: Path, *, size: int | None = None) -> Pool:
    """The same without a manifest."""
    return Pool(size=size, env="toy", beside=[folder])


def chosen(spec: SplitSpec, pool: Pool) -> list[int]:
    return numbers(select(spec, pool, where="x", warnings=[]))


def refusal(spec: SplitSpec, pool: Pool) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        select(spec, pool, where="x", warnings=[])
    return caught.value


def published(folder: Path, *numbers: int, name: str = "list.json") -> str:
    (folder / name).write_text(json.dumps([{"item_id": f"toy_{number}"} for number in numbers]))
    return name


def test_a_split_is_selected_by_its_name_or_by_numbers_in_their_order(tmp_path: Path) -> None:
    rows = pool(tmp_path)
    assert chosen(SplitSpec(name="train"), rows) == [0, 1]
    picked = select(SplitSpec(name="mine", ids="3,0-1"), rows, where="x", warnings=[])
    assert numbers(picked) == [3, 0, 1]
    assert {row.split for row in picked} == {"mine"}
    assert picked[1].digest == "0000000000000000"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("0-9", "x: ids: expected tasks of the manifest, got 4 in 0-9"),
        ("0-999999999999", "x: ids: expected tasks of the manifest, got 4 in 0-999999999999"),
        ("1000000000", "x: ids: expected tasks of the manifest, got 1000000000"),
        ("99999999999999999999", "x: ids: expected task numbers, got '99999999999999999999'"),
        ("1,0-1", "x: ids: expected each task once, got 1 again"),
        ("3-1", "x: ids: expected a range that rises, got 3-1"),
        ("\u0663", "x: ids: expected task numbers, got '\u0663'"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(tmp_path: Path, ids: str, message: str) -> None:
    assert str(refusal(SplitSpec(name="mine", ids=ids), pool(tmp_path))) == message


def test_an_unknown_split_names_the_nearest(tmp_path: Path) -> None:
    said = refusal(SplitSpec(name="tset"), pool(tmp_path))
    assert str(said) == "x: expected a split of the manifest (test, train), got 'tset'"
    assert said.hint == "did you mean test?"


def test_without_a_manifest_rows_are_known_by_number_alone_in_the_order_of_the_ids(tmp_path: Path) -> None:
    picked = select(SplitSpec(name="mine", ids="7,2-3"), unpinned(tmp_path), where="x", warnings=[])
    assert picked == tuple(TaskRow(index=index, split="mine", category="", goal="", digest="") for index in (7, 2, 3))


def test_without_a_manifest_a_name_selects_nothing(tmp_path: Path) -> None:
    assert str(refusal(SplitSpec(name="test"), unpinned(tmp_path))) == "x: expected ids or a file, since there is no manifest, got neither"


@pytest.mark.parametrize("manifested", [True, False])
def test_a_number_from_the_size_on_is_refused(tmp_path: Path, manifested: bool) -> None:
    here = pool(tmp_path, size=3) if manifested else unpinned(tmp_path, size=3)
    assert chosen(SplitSpec(name="mine", ids="0-2"), here) == [0, 1, 2]
    assert str(refusal(SplitSpec(name="mine", ids="2-3"), here)) == "x: ids: expected tasks below tasks.size (3), got 3 in 2-3"


@pytest.mark.slow
def test_a_range_is_as_long_as_the_largest_environment_and_no_longer_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picked = select(SplitSpec(name="mine", ids="51713-221327"), unpinned(tmp_path), where="x", warnings=[])
    assert (len(picked), picked[-1].index) == (169_615, 221_327)
    monkeypatch.setattr(tasks, "MOST_TASKS", 1_000)
    said = refusal(SplitSpec(name="mine", ids="5,0-4,6-999999999999"), unpinned(tmp_path))
    assert str(said) == "x: ids: expected at most 1000 tasks, got more with 6-999999999999"


def test_a_published_list_is_taken_in_its_order_before_the_ids(tmp_path: Path) -> None:
    spec = SplitSpec(name="mine", file=published(tmp_path, 3, 0, 2), ids="1")
    warnings: list[str] = []
    assert numbers(select(spec, pool(tmp_path), where="x", warnings=warnings)) == [3, 0, 2]
    assert numbers(select(spec, unpinned(tmp_path), where="x", warnings=warnings)) == [3, 0, 2]
    assert warnings == []


def test_a_published_list_names_only_tasks_of_the_manifest(tmp_path: Path) -> None:
    spec = SplitSpec(name="mine", file=published(tmp_path, 3, 4))
    assert str(refusal(spec, pool(tmp_path))) == f"x: file: expected tasks of the manifest, got 4 in {tmp_path}/list.json"


def test_where_a_published_list_is_not_there_its_stand_in_is_taken_and_said(tmp_path: Path) -> None:
    warnings: list[str] = []
    spec = SplitSpec(name="mine", file="textcraft_train.json", ids="0-3", exclude="2")
    assert numbers(select(spec, pool(tmp_path), where="tasks.train", warnings=warnings)) == [0, 1, 3]
    assert warnings == [
        "tasks.train: file: 'textcraft_train.json' was not found, so the 3 tasks that the recipe gives by number are taken in its place: "
        "the published list may have others, and results on these are not results on it"
    ]


def test_a_published_list_that_is_nowhere_is_named_with_what_it_is_and_who_has_it(tmp_path: Path) -> None:
    said = refusal(SplitSpec(name="mine", file="textcraft_train.json"), unpinned(tmp_path))
    assert str(said) == (
        "x: file: expected published lists of ids (toy_NUMBER) beside the recipe, in the current folder or shipped, "
        "got 'textcraft_train.json', which is in none of them"
    )
    assert said.hint is not None and "do not ship with agentgym" in said.hint


def test_all_published_lists_that_are_nowhere_are_named_at_once(tmp_path: Path) -> None:
    spec = TasksSpec(
        train=SplitSpec(name="train", file="train.json"),
        evaluation=(SplitSpec(name="seen", file=published(tmp_path, 1)), SplitSpec(name="test", file="test.json"), SplitSpec(name="more", ids="5")),
    )
    with pytest.raises(RecipeError) as caught:
        selected(spec, tmp_path)
    assert str(caught.value) == (
        "tasks.train, tasks.evaluation[1]: file: expected published lists of ids (toy_NUMBER) beside the recipe, in the current folder or "
        "shipped, got 'train.json', 'test.json', which are in none of them"
    )


def test_a_published_list_that_is_a_folder_is_refused_though_there_are_ids(tmp_path: Path) -> None:
    (tmp_path / "list.json").mkdir()
    said = refusal(SplitSpec(name="mine", file="list.json", ids="0"), pool(tmp_path))
    assert str(said) == f"{tmp_path}/list.json: expected a file, got a folder"


def test_tasks_are_left_out_by_number_wherever_they_come_from(tmp_path: Path) -> None:
    rows = pool(tmp_path)
    assert chosen(SplitSpec(name="train", exclude="0"), rows) == [1]
    assert chosen(SplitSpec(name="mine", ids="0-3", exclude="3,1-2"), rows) == [0]
    assert chosen(SplitSpec(name="mine", file=published(tmp_path, 3, 0, 2), exclude="0-1"), rows) == [3, 2]


@pytest.mark.parametrize(
    ("exclude", "message"),
    [
        ("5", "x: exclude: expected numbers of the split's tasks, got none of them in 5"),
        ("0,100-999999999999", "x: exclude: expected numbers of the split's tasks, got none of them in 100-999999999999"),
        ("0-1", "x: exclude: expected to leave a task, got '0-1', which leaves out all of them"),
        ("1-0", "x: exclude: expected a range that rises, got 1-0"),
    ],
)
def test_an_exclusion_that_cannot_be_meant_is_refused(tmp_path: Path, exclude: str, message: str) -> None:
    assert str(refusal(SplitSpec(name="train", exclude=exclude), pool(tmp_path))) == message


@pytest.mark.slow
@given(ids=st.sets(st.integers(0, 60), min_size=1), low=st.integers(0, 60), length=st.integers(0, 60))
def test_what_is_left_is_what_is_not_excluded(ids: set[int], low: int, length: int) -> None:
    gone = ids & set(range(low, low + length + 1))
    spec = SplitSpec(name="mine", ids=",".join(map(str, sorted(ids))), exclude=f"{low}-{low + length}")
    if gone and gone != ids:
        assert chosen(spec, Pool(env="toy")) == sorted(ids - gone)
    else:
        assert str(refusal(spec, Pool(env="toy"))).startswith("x: exclude: ")


def test_categories_keep_rows_of_the_manifest(tmp_path: Path) -> None:
    rows = pool(tmp_path)
    assert chosen(SplitSpec(name="mine", ids="0-3", categories=("depth 2",)), rows) == [2, 3]
    assert chosen(SplitSpec(name="mine", ids="0-3", categories=("depth 2", "depth 1"), exclude="1"), rows) == [0, 2, 3]
    said = refusal(SplitSpec(name="train", categories=("depth 11",)), rows)
    assert str(said) == "x: categories: expected some of the split's (depth 1), got 'depth 11'"
    assert said.hint == "did you mean depth 1?"


def test_categories_need_a_manifest(tmp_path: Path) -> None:
    said = refusal(SplitSpec(name="mine", ids="0-3", categories=("easy",)), unpinned(tmp_path))
    assert str(said) == "x: categories: expected some of the split's (none), got 'easy'"
    assert said.hint is not None and "tasks.manifest" in said.hint


def lists(folder: Path, text: str, **splits: str | None) -> TasksSpec:
    path = manifest(folder, text)
    evaluation = tuple(SplitSpec(name=name, ids=ids) for name, ids in splits.items())
    return TasksSpec(manifest=path.name, train=SplitSpec(name="train"), evaluation=evaluation)


def selected(spec: TasksSpec, folder: Path) -> TaskLists:
    return select_tasks(spec, env="toy", beside=[folder])


def test_the_lists_of_a_recipe_are_found_beside_it(tmp_path: Path) -> None:
    found = selected(lists(tmp_path, MANIFEST, test=None, more="2"), tmp_path)
    assert numbers(found.train) == [0, 1]
    assert {name: numbers(rows) for name, rows in found.evaluation.items()} == {"test": [2], "more": [2]}
    assert numbers(found.rows()) == [0, 1, 2, 2]
    assert found.warnings == ()


def test_a_recipe_that_only_evaluates_has_no_training_tasks(tmp_path: Path) -> None:
    spec = TasksSpec(manifest=str(manifest(tmp_path, MANIFEST)), evaluation=(SplitSpec(name="train"),))
    found = select_tasks(spec, env="toy", beside=[])
    assert found.train == ()
    assert numbers(found.evaluation["train"]) == [0, 1]


def test_tasks_without_pinned_content_are_a_warning(tmp_path: Path) -> None:
    known_by_number = TasksSpec(train=SplitSpec(name="train", ids="0-9"), evaluation=(SplitSpec(name="test", ids="10-12"),))
    assert selected(known_by_number, tmp_path).warnings == (NOT_PINNED,)
    partly = selected(lists(tmp_path, MANIFEST, test=None, more="3"), tmp_path)
    assert partly.warnings == ("tasks.manifest: expected a digest for every task, got 1 of 4 without: their content is not pinned",)


def test_the_stand_in_of_each_list_is_a_warning_of_the_lists(tmp_path: Path) -> None:
    spec = TasksSpec(train=SplitSpec(name="train", file="train.json", ids="0-9"), evaluation=(SplitSpec(name="test", file="test.json", ids="10-12"),))
    said = selected(spec, tmp_path).warnings
    assert [line.split(" was not found")[0] for line in said] == [
        "tasks.train: file: 'train.json'",
        "tasks.evaluation[0]: file: 'test.json'",
        NOT_PINNED,
    ]


@pytest.mark.slow
def test_a_published_list_that_comes_later_is_drift_of_the_run(tmp_path: Path) -> None:
    text = RECIPE.replace("train: {name: train}", "train: {name: train, file: train.json, ids: 0-1}")
    frozen = freeze(resolve(write_recipe(tmp_path, text), survey=has()))
    assert [each for each in check(frozen) if each.item == "tasks.train"] == []
    (tmp_path / "train.json").write_text('[{"item_id": "textcraft_1"}, {"item_id": "textcraft_0"}]')
    assert [(each.name, each.reordered) for each in check(frozen) if each.item == "tasks.train"] == [("order", True)]
    (tmp_path / "train.json").write_text('[{"item_id": "textcraft_3"}, {"item_id": "textcraft_0"}]')
    assert [each.name for each in check(frozen) if each.item == "tasks.train"] == ["rows"]
