"""Whether a server's task is the one that was pinned, and what it means where it is not. Asks no server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agentgym_cli.env.dialect_schema import DialectSpec

_OTHER_DATA = "the server has another version of its tasks, or other data"


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTasks:
    """The tasks of a run by content, and what is known of the order and the content of their family."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    """Task number by digest, of every task that is pinned."""
    order_note: str | None = None
    """Why servers of the family number their tasks otherwise; None when nothing is known."""
    content_note: str | None = None
    """Why they word a task otherwise; None when nothing is known."""

    def mismatch(self, index: int, *, expected: str, got: str) -> str:
        """What it means that task ``index`` has content ``got`` and not ``expected``, both digests."""
        if self.moved(got):
            what = f"task {index} is what the list has as {self.numbers[got]}: the server's order differs from the pinned one"
            return f"{what}; {self.order_note}" if self.order_note else what
        what = f"task {index}: expected a first observation with digest {expected}, got {got}, which no task of the list has"
        return f"{what}: its content differs from the pinned one; {self.content_note or _OTHER_DATA}"

    def moved(self, got: str) -> bool:
        """True when a content is that of some task of the list."""
        return got in self.numbers


def pinned_tasks(spec: DialectSpec, tasks: Iterable[tuple[int, str]]) -> PinnedTasks:
    """From number and digest ('' where it is not pinned) of each task; of two with one content the first is named."""
    numbers: dict[str, int] = {}
    for index, digest in tasks:
        if digest:
            numbers.setdefault(digest, index)
    return PinnedTasks(numbers=numbers, order_note=spec.order_note, content_note=spec.content_note)
