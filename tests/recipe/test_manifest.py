"""A manifest is read strictly, and what is written reads back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.manifest import TaskRow, manifest_text, read_manifest

HEADER = "index,split,category,goal,digest\n"


def manifest(folder: Path, text: str) -> Path:
    path = folder / "m.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


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


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ROWS = st.lists(
    st.builds(
        TaskRow,
        index=st.integers(0, 10**12 - 1),
        split=st.from_regex(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,79})?", fullmatch=True),
        category=TEXT,
        goal=TEXT,
        digest=st.from_regex(r"([0-9a-f]{16})?", fullmatch=True),
    ),
    unique_by=lambda row: row.index,
    max_size=8,
)


@pytest.mark.slow
@given(rows=ROWS)
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, rows: list[TaskRow]) -> None:
    path = manifest(tmp_path_factory.getbasetemp(), manifest_text(rows))
    assert read_manifest(path) == tuple(rows)


def test_a_manifest_that_is_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="expected a file, got a folder"):
        read_manifest(tmp_path)
