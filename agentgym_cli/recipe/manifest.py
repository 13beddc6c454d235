"""A manifest: a CSV file that names tasks by number and pins their content by digest. Read strictly, written so that it reads back."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import asked, listed, shown
from agentgym_cli.recipe.yaml import read_text

COLUMNS = ("index", "split", "category", "goal", "digest")
MAX_INDEX_DIGITS = 12
_MAX_BYTES = 256 << 20
_SPLIT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,79})?")
_DIGEST = re.compile(r"([0-9a-f]{16})?")


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


def manifest_text(rows: Iterable[TaskRow]) -> str:
    """The text of a file that ``read_manifest`` reads back as these rows; lines end in a line feed."""
    made = io.StringIO(newline="")
    plain, quoted = (csv.writer(made, lineterminator="\n", quoting=quoting) for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    plain.writerow(COLUMNS)
    for row in rows:
        # Where lines end in a line feed, the writer does not quote a carriage return, and the reader takes it for the end of a line.
        writer = quoted if "\r" in row.goal + row.category else plain
        writer.writerow((row.index, row.split, row.category, row.goal, row.digest))
    return made.getvalue()


def _header(names: Sequence[str], path: Path) -> dict[str, int]:
    for name in names:
        if name not in COLUMNS:
            raise RecipeError(f"{path}:1: expected the columns {listed(COLUMNS)}, got {shown(name)}{asked(name, COLUMNS, before='; ')}")
    if sorted(names) != sorted(COLUMNS):
        raise RecipeError(f"{path}:1: expected the columns {listed(COLUMNS)} once each, got {listed(names) or 'none'}")
    return {name: place for place, name in enumerate(names)}


def _row(values: Mapping[str, str], where: str) -> TaskRow:
    index = values["index"]
    if not (index.isascii() and index.isdecimal() and len(index) <= MAX_INDEX_DIGITS):
        raise RecipeError(f"{where}: index: expected a task number, got {shown(index)}")
    if not _SPLIT.fullmatch(values["split"]):
        raise RecipeError(f"{where}: split: expected a name or nothing, got {shown(values['split'])}")
    if not _DIGEST.fullmatch(values["digest"]):
        raise RecipeError(f"{where}: digest: expected 16 hex digits or nothing, got {shown(values['digest'])}")
    return TaskRow(index=int(index), split=values["split"], category=values["category"], goal=values["goal"], digest=values["digest"])
