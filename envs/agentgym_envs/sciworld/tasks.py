"""The tasks in AgentGym's order: every variation of the package's tasks, without seven of them. Knows no simulator."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

EXCLUDED = frozenset({"5-1", "5-2", "9-1", "9-2", "9-3", "10-1", "10-2"})
"""Ids of the package's tasks that AgentGym's server leaves out."""


@dataclass(frozen=True, slots=True)
class Task:
    """One variation of one task."""

    name: str
    variation: int


def list_tasks(file: Path, variations: Callable[[str], int]) -> tuple[Task, ...]:
    """The tasks by number.

    Args:
        file: the package's list of tasks, an array of objects with ``task_id`` and ``task_name``.
        variations: how many there are of a task, by its name.

    Raises:
        OSError, ValueError: the file cannot be read.
    """
    entries = json.loads(file.read_text(encoding="utf-8"))
    try:
        names = [entry["task_name"] for entry in entries if entry["task_id"] not in EXCLUDED]
    except (KeyError, TypeError) as err:
        raise ValueError(f"{file.name}: expected objects with task_id and task_name, got {str(entries)[:80]}") from err
    return tuple(Task(name, variation) for name in names for variation in range(variations(name)))
