"""Task lists are read strictly and selected by split or by number; evaluation never shares a task with training."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.schema.world import SplitSpec, TasksSpec
from agentgym_cli.recipe.tasks import TaskRow, read_manifest, select, select_tasks
from tests.recipe.builders import MANIFEST

HEADER = "index,split,category,goal,digest\n"


def manifest(folder: Path, text: str) -> Path:
    path = folder / "m.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def numbers(rows: tuple[TaskRow, ...]) -> list[int]:
    return [row.index for row in rows]


def test_rows_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    rows = read_manifest(manifest(tmp_path, HEADER + '7,train,"depth 1, hard","say ""x""",0123456789abcdef\n3,,,,\n'))
    assert rows == (
        TaskRow(index=7, split="train", category="depth 1, hard", goal='say "x"', digest="0123456789abcdef"),
        TaskRow(index=3, split="", category="", goal="", digest=""),
    )


def test_columns_may_stand_in_any_order_and_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    rows = read_manifest(manifest(tmp_path, "\ufeffdigest,goal,index,category,split\r\n,door,4,depth 2,test\r\n"))
    assert rows == (TaskRow(index=4, split="test", category="depth 2", goal="door", digest=""),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.csv:1: expected the columns index, split, category, goal, digest once each, got none"),
        (
            "index,split,category,goal\n",
            "m.csv:1: expected the columns index, split, category, goal, digest once each, got index, split, category, goal",
        ),
        ("index,index,split,category,goal,digest\n", "m.csv:1: expected the columns index, split, category, goal, digest once each"),
        (
            "index,splot,category,goal,digest\n",
            "m.csv:1: expected the columns index, split, category, goal, digest, got 'splot'; did you mean split?",
        ),
        (HEADER + "1,train,a,b\n", "m.csv:2: expected 5 values, got 4"),
        (HEADER + "1,train,a,b,,x\n", "m.csv:2: expected 5 values, got 6"),
        (HEADER + "1,a,a,b,\n\n2,b,a,b,\n", "m.csv:3: expected 5 values, got 0"),
        (HEADER + "1.0,train,a,b,\n", "m.csv:2: index: expected a task number, got '1.0'"),
        (HEADER + "-1,train,a,b,\n", "m.csv:2: index: expected a task number, got '-1'"),
        (HEADER + "²,train,a,b,\n", "m.csv:2: index: expected a task number, got '²'"),
        (HEADER + "1234567890123,train,a,b,\n", "m.csv:2: index: expected a task number, got '1234567890123'"),
        (HEADER + "1,tr ain,a,b,\n", "m.csv:2: split: expected a name or nothing, got 'tr ain'"),
        (HEADER + "1,train,a,b,0123\n", "m.csv:2: digest: expected 16 hex digits or nothing, got '0123'"),
        (HEADER + "1,train,a,b,0123456789ABCDEF\n", "m.csv:2: digest: expected 16 hex digits or nothing"),
        (HEADER + "1,train,a,b,\n1,test,a,b,\n", "m.csv:3: index: expected each task once, got 1 again (first on line 2)"),
        (HEADER + '1,train,a,"b\nc",\n1,test,a,b,\n', "m.csv:4: index: expected each task once, got 1 again (first on line 3)"),
        (HEADER + '1,train,a,"b"c,\n', "m.csv:2: expected CSV, got: "),
        (HEADER + '1,train,a,"b', "m.csv:2: expected CSV, got: "),
        (HEADER + f"1,train,a,{'b' * 200_000},\n", "m.csv:2: expected CSV, got: field larger than field limit"),
    ],
)
def test_promise_08_nothing_unknown_in_a_data_file_is_ignored(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        read_manifest(manifest(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_a_split_is_selected_by_its_name_or_by_numbers_in_their_order(tmp_path: Path) -> None:
    rows = read_manifest(manifest(tmp_path, MANIFEST))
    assert numbers(select(rows, SplitSpec(name="train"), where="x")) == [0, 1]
    picked = select(rows, SplitSpec(name="mine", ids="3,0-1"), where="x")
    assert numbers(picked) == [3, 0, 1]
    assert {row.split for row in picked} == {"mine"}
    assert picked[1].digest == "0000000000000000"


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ("0-9", "x: ids: expected tasks of the manifest, got 4 in 0-9"),
        ("0-999999999999", "x: ids: expected tasks of the manifest, got 4 in 0-999999999999"),
        ("99999999999999999999", "x: ids: expected task numbers, got '99999999999999999999'"),
        ("1,0-1", "x: ids: expected each task once, got 1 again"),
        ("3-1", "x: ids: expected a range that rises, got 3-1"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(tmp_path: Path, ids: str, message: str) -> None:
    rows = read_manifest(manifest(tmp_path, MANIFEST))
    with pytest.raises(RecipeError) as caught:
        select(rows, SplitSpec(name="mine", ids=ids), where="x")
    assert str(caught.value) == message


def test_an_unknown_split_names_the_nearest(tmp_path: Path) -> None:
    rows = read_manifest(manifest(tmp_path, MANIFEST))
    with pytest.raises(RecipeError) as caught:
        select(rows, SplitSpec(name="tset"), where="x")
    assert str(caught.value) == "x: expected a split of the manifest (test, train), got 'tset'"
    assert caught.value.hint == "did you mean test?"


def lists(folder: Path, text: str, **splits: str | None) -> TasksSpec:
    path = manifest(folder, text)
    evaluation = tuple(SplitSpec(name=name, ids=ids) for name, ids in splits.items())
    return TasksSpec(manifest=path.name, train=SplitSpec(name="train"), evaluation=evaluation)


def test_the_lists_of_a_recipe_are_found_beside_it(tmp_path: Path) -> None:
    found = select_tasks(lists(tmp_path, MANIFEST, test=None, more="3"), beside=[tmp_path])
    assert numbers(found.train) == [0, 1]
    assert {name: numbers(rows) for name, rows in found.evaluation.items()} == {"test": [2], "more": [3]}


def test_an_evaluation_that_shares_a_task_with_training_is_refused_by_number(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        select_tasks(lists(tmp_path, MANIFEST, test=None, seen="1-3"), beside=[tmp_path])
    assert str(caught.value) == f"tasks.evaluation[1] ({tmp_path}/m.csv): expected no task of the training split, got task 1"


def test_an_evaluation_that_shares_a_task_with_training_is_refused_by_content(tmp_path: Path) -> None:
    same = "".join(f"{number},{'train' if number < 5 else 'test'},a,b,{number % 5:016x}\n" for number in range(10))
    with pytest.raises(RecipeError) as caught:
        select_tasks(lists(tmp_path, HEADER + same, test=None), beside=[tmp_path])
    said = str(caught.value)
    assert "got task 5 (content of task 0), task 6 (content of task 1), task 7 (content of task 2) and 2 more" in said


def test_tasks_that_are_not_pinned_share_no_content(tmp_path: Path) -> None:
    found = select_tasks(lists(tmp_path, HEADER + "0,train,a,b,\n1,test,a,b,\n", test=None), beside=[tmp_path])
    assert numbers(found.evaluation["test"]) == [1]


def test_a_recipe_that_only_evaluates_has_no_training_tasks(tmp_path: Path) -> None:
    spec = TasksSpec(manifest=str(manifest(tmp_path, MANIFEST)), evaluation=(SplitSpec(name="train"),))
    found = select_tasks(spec, beside=[])
    assert found.train == ()
    assert numbers(found.evaluation["train"]) == [0, 1]
