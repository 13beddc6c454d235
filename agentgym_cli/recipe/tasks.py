"""Task lists: a manifest of tasks pinned by content, and the splits that a recipe selects from it. Asks no environment."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import find_data
from agentgym_cli.recipe.schema.world import SplitSpec, TasksSpec
from agentgym_cli.recipe.wording import listed, nearest, shown
from agentgym_cli.recipe.yaml import read_text

COLUMNS = ("index", "split", "category", "goal", "digest")
_MAX_BYTES = 256 << 20
_MAX_INDEX_DIGITS = 12
_SPLIT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,79})?")
_DIGEST = re.compile(r"([0-9a-f]{16})?")
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One line of a manifest."""

    index: int
    """The server's task key."""
    split: str
    """Name of the split; '' for a task in none."""
    category: str
    goal: str
    digest: str
    """First 16 hex digits of the SHA-256 of the first observation; '' when it is not pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLists:
    """The tasks of a run, in drawing order; each row's ``split`` is the name that the recipe gives."""

    train: tuple[TaskRow, ...]
    """Empty in a recipe that only evaluates."""
    evaluation: Mapping[str, tuple[TaskRow, ...]]


def read_manifest(path: Path) -> tuple[TaskRow, ...]:
    """Rows of a CSV file with exactly the columns of ``COLUMNS``, in any order; UTF-8, one row per task index.

    Raises:
        RecipeError: names file, line and column of the first thing that cannot be meant.
    """
    reader = csv.reader(io.StringIO(read_text(path, _MAX_BYTES), newline=""), strict=True)
    rows: dict[int, tuple[int, TaskRow]] = {}
    try:
        order = _header(next(reader, []), path)
        for values in reader:
            line = reader.line_num
            if len(values) != len(COLUMNS):
                raise RecipeError(f"{path}:{line}: expected {len(COLUMNS)} values, got {len(values)}")
            row = _row({name: values[place] for name, place in order.items()}, f"{path}:{line}")
            if row.index in rows:
                raise RecipeError(f"{path}:{line}: index: expected each task once, got {row.index} again (first on line {rows[row.index][0]})")
            rows[row.index] = (line, row)
    except csv.Error as err:
        raise RecipeError(f"{path}:{reader.line_num}: expected CSV, got: {err}") from err
    return tuple(row for _, row in rows.values())


def _header(names: Sequence[str], path: Path) -> dict[str, int]:
    for name in names:
        if name not in COLUMNS:
            raise RecipeError(f"{path}:1: expected the columns {listed(COLUMNS)}, got {shown(name)}; did you mean {nearest(name, COLUMNS)}?")
    if sorted(names) != sorted(COLUMNS):
        raise RecipeError(f"{path}:1: expected the columns {listed(COLUMNS)} once each, got {listed(names) or 'none'}")
    return {name: place for place, name in enumerate(names)}


def _row(values: Mapping[str, str], where: str) -> TaskRow:
    index = values["index"]
    if not (index.isascii() and index.isdecimal() and len(index) <= _MAX_INDEX_DIGITS):
        raise RecipeError(f"{where}: index: expected a task number, got {shown(index)}")
    if not _SPLIT.fullmatch(values["split"]):
        raise RecipeError(f"{where}: split: expected a name or nothing, got {shown(values['split'])}")
    if not _DIGEST.fullmatch(values["digest"]):
        raise RecipeError(f"{where}: digest: expected 16 hex digits or nothing, got {shown(values['digest'])}")
    return TaskRow(index=int(index), split=values["split"], category=values["category"], goal=values["goal"], digest=values["digest"])


def select(rows: Sequence[TaskRow], spec: SplitSpec, *, where: str) -> tuple[TaskRow, ...]:
    """Rows of one split, in the order of its ids or of the manifest, renamed to the split.

    Raises:
        RecipeError: nothing is selected, an id is named twice or is not in the manifest; starts with ``where``.
    """
    if spec.ids is None:
        chosen = tuple(row for row in rows if row.split == spec.name)
        if not chosen:
            known = sorted({row.split for row in rows if row.split})
            like = nearest(spec.name, known)
            hint = f"did you mean {like}?" if like else None
            raise RecipeError(f"{where}: expected a split of the manifest ({listed(known) or 'none'}), got {shown(spec.name)}", hint=hint)
        return chosen
    by_index = {row.index: row for row in rows}
    picked: dict[int, TaskRow] = {}
    for index in _indices(spec.ids, by_index, where):
        if index in picked:
            raise RecipeError(f"{where}: ids: expected each task once, got {index} again")
        picked[index] = replace(by_index[index], split=spec.name)
    return tuple(picked.values())


def _indices(ids: str, known: Mapping[int, TaskRow], where: str) -> Iterator[int]:
    for part in ids.split(","):
        first, _, last = part.partition("-")
        if max(len(first), len(last)) > _MAX_INDEX_DIGITS:
            raise RecipeError(f"{where}: ids: expected task numbers, got {shown(part)}")
        low, high = int(first), int(last or first)
        if high < low:
            raise RecipeError(f"{where}: ids: expected a range that rises, got {part}")
        for index in range(low, high + 1):
            if index not in known:
                raise RecipeError(f"{where}: ids: expected tasks of the manifest, got {index} in {part}")
            yield index


def select_tasks(spec: TasksSpec, *, beside: Sequence[Path]) -> TaskLists:
    """The task lists of a recipe, its manifest looked for in the folders of ``beside`` first.

    Raises:
        RecipeError: the manifest is missing or broken, a split is empty, or training and evaluation share a task, by number or by content.
    """
    assert spec.manifest is not None
    path = find_data(spec.manifest, beside=beside, where="tasks.manifest")
    rows = read_manifest(path)
    train = select(rows, spec.train, where=f"tasks.train ({path})") if spec.train is not None else ()
    evaluation = {}
    for number, split in enumerate(spec.evaluation):
        where = f"tasks.evaluation[{number}] ({path})"
        evaluation[split.name] = select(rows, split, where=where)
        _refuse_overlap(train, evaluation[split.name], where=where)
    return TaskLists(train=train, evaluation=evaluation)


def _refuse_overlap(train: Sequence[TaskRow], evaluation: Sequence[TaskRow], *, where: str) -> None:
    indices = {row.index for row in train}
    digests = {row.digest: row.index for row in train if row.digest}
    same = [f"task {row.index}" for row in evaluation if row.index in indices]
    alike = [f"task {row.index} (content of task {digests[row.digest]})" for row in evaluation if row.index not in indices and row.digest in digests]
    if shared := [*same, *alike]:
        rest = f" and {len(shared) - _NAMED} more" if len(shared) > _NAMED else ""
        raise RecipeError(f"{where}: expected no task of the training split, got {listed(shared[:_NAMED])}{rest}")
