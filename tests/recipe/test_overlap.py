"""Contamination: an evaluation never shares a task with training unless the recipe names it, and then it is counted, stored and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.manifest import TaskRow
from agentgym_cli.recipe.overlap import Overlap, overlap, reported, twins
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.about import OverlapNote
from agentgym_cli.recipe.schema.world import SplitSpec, TasksSpec
from agentgym_cli.recipe.tasks import TaskLists, select_tasks
from tests.recipe.builders import RECIPE, has, write_recipe

HEADER = "index,split,category,goal,digest\n"
TEN = HEADER + "".join(f"{number},{'train' if number < 5 else 'test'},a,b,{number % 5:016x}\n" for number in range(10))
"""Tasks 0 to 4 to train on; 5 to 9 with their contents to be judged on."""


def row(index: int, content: int | None = None, *, goal: str = "") -> TaskRow:
    """A task, pinned where ``content`` is given."""
    return TaskRow(index=index, split="s", category="", goal=goal, digest="" if content is None else f"{content:016x}")


def select_from(folder: Path, text: str, *evaluation: SplitSpec, allow: tuple[str, ...] = ()) -> TaskLists:
    (folder / "m.csv").write_text(text)
    spec = TasksSpec(manifest="m.csv", train=SplitSpec(name="train"), evaluation=evaluation, allow_overlap=allow)
    return select_tasks(spec, env="toy", beside=[folder])


def test_an_evaluation_that_shares_a_task_with_training_is_refused_by_number(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        select_from(tmp_path, HEADER + "0,train,a,b,\n1,train,a,b,\n2,test,a,b,\n", SplitSpec(name="test"), SplitSpec(name="seen", ids="1-2"))
    assert str(caught.value) == f"tasks.evaluation[1] ({tmp_path}/m.csv): expected no task of the training split, got task 1"
    assert caught.value.hint == "leave them out of one of the two (exclude), or allow it by name: tasks.allow_overlap: [seen]"


def test_an_evaluation_that_shares_a_task_with_training_is_refused_by_content(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        select_from(tmp_path, TEN, SplitSpec(name="test"))
    assert "got task 5 (content of task 0), task 6 (content of task 1), task 7 (content of task 2) and 2 more" in str(caught.value)


def test_an_overlap_without_a_manifest_is_refused_by_number() -> None:
    spec = TasksSpec(train=SplitSpec(name="train", ids="0-9"), evaluation=(SplitSpec(name="test", ids="9-12"),))
    with pytest.raises(RecipeError, match=r"^tasks\.evaluation\[0\]: expected no task of the training split, got task 9$"):
        select_tasks(spec, env="toy", beside=[])


def test_an_overlap_that_is_allowed_by_name_is_counted_and_said(tmp_path: Path) -> None:
    found = select_from(tmp_path, TEN, SplitSpec(name="test", ids="4-7"), allow=("test",))
    assert found.overlaps == (
        Overlap(split="test", tasks=4, by_number=1, by_content=3, examples=("task 4", "task 5 (content of task 0)", "task 6 (content of task 1)")),
    )
    assert found.warnings == (
        "tasks.allow_overlap: split test shares 4 of 4 tasks with training: task 4, task 5 (content of task 0), task 6 (content of task 1) "
        "and 1 more",
    )


def test_what_is_allowed_for_one_split_is_refused_for_another(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"^tasks\.evaluation\[1\]"):
        select_from(tmp_path, TEN, SplitSpec(name="test", ids="5"), SplitSpec(name="more", ids="6"), allow=("test",))


def test_an_allowed_overlap_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    found = select_from(tmp_path, HEADER + f"0,train,a,b,{1:016x}\n1,test,a,b,{2:016x}\n", SplitSpec(name="test"), allow=("test",))
    assert (found.overlaps, found.warnings) == ((), ())


def test_an_evaluation_may_share_tasks_with_another_evaluation(tmp_path: Path) -> None:
    text = HEADER + "".join(f"{number},{'train' if number < 2 else 'test'},a,b,{number:016x}\n" for number in range(4))
    assert select_from(tmp_path, text, SplitSpec(name="test"), SplitSpec(name="last", ids="3")).warnings == ()


def test_tasks_that_are_not_pinned_share_no_content() -> None:
    assert overlap([row(0), row(1)], [row(2), row(3)], split="test") is None


def test_the_same_goal_with_other_content_is_no_overlap() -> None:
    assert overlap([row(0, 1, goal="craft a door")], [row(1, 2, goal="craft a door")], split="test") is None


def test_one_task_counts_once_though_number_and_content_are_shared() -> None:
    found = overlap([row(0, 1), row(7, 1)], [row(0, 1), row(5, 1)], split="test")
    assert found is not None
    assert (found.by_number, found.by_content, found.count) == (1, 1, 2)
    assert found.examples == ("task 0", "task 5 (content of task 0)")


def test_two_numbers_with_one_content_in_a_split_are_a_warning() -> None:
    assert list(twins([row(3, 1), row(4, 2), row(7, 1), row(9, 1), row(10), row(11)], split="test")) == [
        "tasks of split test: expected each content once, got 2 of 6 tasks with the content of an earlier one, e.g. task 7 of task 3: "
        "they count as tasks of their own"
    ]
    assert list(twins([row(3, 1), row(4, 2), row(5), row(6)], split="test")) == []


def test_twins_of_an_evaluation_split_are_a_warning_of_the_lists(tmp_path: Path) -> None:
    found = select_from(tmp_path, HEADER + f"0,train,a,b,{1:016x}\n1,test,a,b,{2:016x}\n2,test,a,b,{2:016x}\n", SplitSpec(name="test"))
    assert [line.split(",")[0] for line in found.warnings] == ["tasks of split test: expected each content once"]


def test_reported_overlaps_are_repeated_with_their_source() -> None:
    assert list(reported([OverlapNote(split="test", tasks=61, source="one user's count")])) == [
        "reported overlap: split test shares 61 tasks with training, source: one user's count"
    ]


def test_a_frozen_run_keeps_every_warning_of_its_lists(tmp_path: Path) -> None:
    text = RECIPE.replace(
        "  manifest: tasks.csv\n  train: {name: train}", "  train: {name: train, file: train.json, ids: 0-3}\n  allow_overlap: [test]"
    )
    text = text.replace("[{name: test}]", "[{name: test, ids: 3-4}]")
    text += "about: {reported_overlaps: [{split: test, tasks: 61, source: one user}]}\n"
    frozen = freeze(resolve(write_recipe(tmp_path, text), survey=has()))
    said = [line.split(":")[0] + ":" + line.split(":")[1] for line in frozen.warnings[-4:]]
    assert said == ["tasks.train: file", "tasks.allow_overlap: split test shares 1 of 2 tasks with training", "tasks.manifest: null", said[3]]
    assert said[3] == "reported overlap: split test shares 61 tasks with training, source"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("tasks: {allow_overlap: [tset]}\n", "tasks.allow_overlap[0]: expected an evaluation split (test), got 'tset'; did you mean test?"),
        (
            "about: {reported_overlaps: [{split: tset, tasks: 61, source: one user}]}\n",
            "about.reported_overlaps[0].split: expected an evaluation split (test), got 'tset'; did you mean test?",
        ),
    ],
)
def test_promise_08_an_overlap_of_a_split_that_is_not_there_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    write_recipe(tmp_path)
    (tmp_path / "mine.yaml").write_text(f"extends: toy.yaml\n{lines}")
    with pytest.raises(RecipeError) as caught:
        resolve(str(tmp_path / "mine.yaml"), survey=has())
    assert message in str(caught.value)
