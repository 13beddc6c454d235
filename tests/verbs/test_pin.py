"""A manifest is made once, and never in place of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.env.survey import Content
from agentgym_cli.errors import ExitCode, StoreError
from agentgym_cli.recipe.manifest import TaskRow
from agentgym_cli.recipe.tasks import TaskLists
from agentgym_cli.verbs.pin import _rows, _write, pin_tasks
from agentgym_cli.verbs.progress import Silent


def row(index: int, split: str, *, category: str = "", goal: str = "") -> TaskRow:
    return TaskRow(index=index, split=split, category=category, goal=goal, digest="")


def test_a_file_that_exists_is_refused_before_anything_is_read_or_asked(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("mine")
    with pytest.raises(StoreError) as caught:
        pin_tasks(str(tmp_path / "nowhere.yaml"), [], path, progress=Silent())
    assert str(caught.value) == f"{path}: expected the name of a new file, got one that exists"
    assert caught.value.exit_code == ExitCode.STORE == 7
    assert path.read_text() == "mine"


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("mine")
    with pytest.raises(StoreError, match="got one that exists"):
        _write(path, "other")
    assert path.read_text() == "mine"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"m\.csv: expected to write the manifest, got: No such file or directory"):
        _write(tmp_path / "nowhere" / "m.csv", "text")


def test_each_task_is_written_once_with_the_first_split_that_names_it_and_what_a_manifest_said_of_it() -> None:
    lists = TaskLists(
        train=(row(3, "train", category="depth 1", goal="old"), row(1, "train", goal="kept")), evaluation={"all": (row(2, "all"), row(3, "all"))}
    )
    contents = {index: Content(digest=f"{index:016x}", goal="door" if index == 3 else "") for index in (1, 2, 3)}
    assert _rows(lists, contents) == (
        TaskRow(index=3, split="train", category="depth 1", goal="door", digest="0000000000000003"),
        TaskRow(index=1, split="train", category="", goal="kept", digest="0000000000000001"),
        TaskRow(index=2, split="all", category="", goal="", digest="0000000000000002"),
    )
