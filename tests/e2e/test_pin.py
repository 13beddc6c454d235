"""From a list that is known by number alone to a pinned one, and what is said when a server no longer has it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.commands import RECIPE, run

pytestmark = pytest.mark.e2e

HOUSE = Path(__file__).parents[2]
TWELVE = """\
extends: recipes/textcraft_big.yaml
name: twelve
profiles:
  laptop:
    env: {world_args: [--book, laptop]}
    tasks: {manifest: null, evaluation: [{name: twelve, ids: 0-11}]}
"""


def rows(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text().splitlines()[1:]]


def permuted(path: Path) -> str:
    """A manifest in which each task has the content of the next."""
    table = rows(path)
    moved = [[row[0], row[1], row[2], *after[3:]] for row, after in zip(table, [*table[1:], table[0]], strict=True)]
    return "\n".join(["index,split,category,goal,digest", *(",".join(row) for row in moved)]) + "\n"


def test_a_list_known_by_number_is_pinned_frozen_and_evaluated_and_another_order_or_book_is_explained(tmp_path: Path) -> None:
    shutil.copytree(HOUSE / "recipes", tmp_path / "recipes")
    (tmp_path / "twelve.yaml").write_text(TWELVE)
    loose = run(tmp_path, "freeze", "twelve.yaml", "profile=laptop", "--json")
    assert loose.code == 0 and any("content of tasks is not pinned" in warning for warning in loose.json["warnings"])

    made = run(tmp_path, "recipe", "pin", "twelve.yaml", "profile=laptop", "-o", "pinned.csv")
    assert (made.code, made.out) == (0, "12 tasks pinned: tasks.manifest=pinned.csv\n")
    shipped = rows(HOUSE / "recipes" / "tasks" / "textcraft_laptop.csv")[:12]
    assert rows(tmp_path / "pinned.csv") == [[index, "twelve", "", goal, digest] for index, _, _, goal, digest in shipped]

    pinned = ("twelve.yaml", "profile=laptop", "tasks.manifest=pinned.csv")
    tight = run(tmp_path, "freeze", *pinned, "--json")
    assert (tight.code, [warning for warning in tight.json["warnings"] if "pinned" in warning]) == (0, [])
    assert tight.json["digest"] != loose.json["digest"]
    scored = run(tmp_path, "eval", *pinned, "--policy", "oracle", "--json")
    assert scored.code == 0, scored.err
    (part,) = scored.json["parts"]
    assert (part["accounting"]["scheduled"], part["accounting"]["success"]) == (12, 12)

    again = run(tmp_path, "recipe", "pin", "twelve.yaml", "profile=laptop", "-o", "pinned.csv")
    assert again.code == 7 and "pinned.csv: expected the name of a new file, got one that exists" in again.err

    (tmp_path / "moved.csv").write_text(permuted(tmp_path / "pinned.csv"))
    moved = run(tmp_path, "eval", "twelve.yaml", "profile=laptop", "tasks.manifest=moved.csv", "--policy", "oracle", "--limit", "2")
    assert moved.code == 4
    assert "task 0 is what the list has as 11: the server's order differs from the pinned one" in moved.message[0]
    assert "the order in which its file system lists the recipe files" in moved.message[0]

    book = run(tmp_path, "eval", *pinned, "env.world_args=[--book, big]", "--policy", "oracle")
    assert book.code == 4
    assert "which no task of the list has: its content differs from the pinned one" in book.message[0]
    assert "another recipe book" in book.message[0]


def test_without_a_file_the_manifest_is_the_result(tmp_path: Path) -> None:
    lists = ("tasks.train={name: train, ids: 0-1}", "tasks.evaluation=[{name: more, ids: 2-2}]")
    ended = run(tmp_path, "recipe", "pin", RECIPE, "profile=laptop", *lists)
    assert ended.code == 0, ended.err
    assert ended.out == (
        "index,split,category,goal,digest\n0,train,depth 1,flax cord,592c6135343bd089\n1,train,depth 1,hemp cord,24b4a0555295caea\n"
        "2,more,depth 1,rush cord,80f5f5f3fb156917\n"
    )
