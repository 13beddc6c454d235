"""Contamination: which tasks an evaluation shares with training, by number and by content, and what others reported of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentgym_cli.recipe.manifest import TaskRow
from agentgym_cli.recipe.schema.about import OverlapNote
from agentgym_cli.recipe.wording import listed

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What an evaluation split shares with training; at least one task."""

    split: str
    tasks: int
    """Size of the evaluation split."""
    by_number: int
    """Its tasks whose number training has too."""
    by_content: int
    """Its further tasks whose first observation is that of a training task with another number."""
    examples: tuple[str, ...]
    """The first few in words, e.g. ``task 6 (content of task 1)``."""

    @property
    def count(self) -> int:
        """Tasks shared in either way."""
        return self.by_number + self.by_content

    def described(self) -> str:
        """The first few, and how many more there are."""
        rest = self.count - len(self.examples)
        return listed(self.examples) + (f" and {rest} more" if rest else "")


def overlap(train: Sequence[TaskRow], evaluation: Sequence[TaskRow], *, split: str) -> Overlap | None:
    """What ``evaluation`` shares with ``train``; None when nothing. Tasks without a digest are compared by number alone."""
    numbers = {row.index for row in train}
    contents = {row.digest: row.index for row in reversed(train) if row.digest}
    same = [f"task {row.index}" for row in evaluation if row.index in numbers]
    alike = [
        f"task {row.index} (content of task {contents[row.digest]})" for row in evaluation if row.index not in numbers and row.digest in contents
    ]
    if not same and not alike:
        return None
    return Overlap(split=split, tasks=len(evaluation), by_number=len(same), by_content=len(alike), examples=(*same, *alike)[:_NAMED])


def twins(rows: Sequence[TaskRow], *, split: str) -> Iterator[str]:
    """A warning where tasks of one split have the same content."""
    first: dict[str, int] = {}
    again = [(row.index, first[row.digest]) for row in rows if row.digest and first.setdefault(row.digest, row.index) != row.index]
    if again:
        index, other = again[0]
        yield (
            f"tasks of split {split}: expected each content once, got {len(again)} of {len(rows)} tasks with the content of an earlier one, "
            f"e.g. task {index} of task {other}: they count as tasks of their own"
        )


def reported(notes: Sequence[OverlapNote]) -> Iterator[str]:
    """Overlaps that others reported, in words."""
    for note in notes:
        yield f"reported overlap: split {note.split} shares {note.tasks} tasks with training, source: {note.source}"
