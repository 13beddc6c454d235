"""Demonstrations, and which of them each update learns, as files for verl. Pure; knows no verl and no tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.schedules import tasks_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrated:
    """A demonstration as an update takes it; both of the same length, the first token never learned, since nothing predicts it."""

    token_ids: tuple[int, ...]
    action_mask: tuple[bool, ...]

    @property
    def action_tokens(self) -> int:
        """Tokens that are learned."""
        return sum(self.action_mask)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Everything that is learned."""

    shown: tuple[Demonstrated, ...]
    updates: tuple[tuple[int, ...], ...]
    """Places in ``shown`` of each update's demonstrations, in order, from step 1 on; all of one length."""

    def action_tokens(self, step: int) -> int:
        """Of one update."""
        return sum(self.shown[place].action_tokens for place in self.updates[step - 1])

    def without_action_tokens(self, step: int) -> int:
        """Demonstrations of one update of which nothing is learned."""
        return sum(not self.shown[place].action_tokens for place in self.updates[step - 1])


def lesson_of(shown: Sequence[Trajectory], *, steps: int, count: int, seed: int) -> Lesson:
    """Exactly ``steps`` updates of ``count`` demonstrations, drawn as the local engine draws them.

    Raises:
        TrainerError: nothing is learned in one of them.
    """
    found = tuple(Demonstrated(token_ids=each.token_ids, action_mask=(False, *each.action_mask[1:])) for each in shown)
    updates = tuple(tasks_at(range(len(found)), seed, step, count) for step in range(1, steps + 1))
    lesson = Lesson(shown=found, updates=updates)
    for step in range(1, steps + 1):
        if not lesson.action_tokens(step):
            raise TrainerError(f"train step {step}: expected demonstrations with action tokens, got none in {count}")
    return lesson


def write_lesson(lesson: Lesson, *, demonstrations: Path, updates: Path) -> None:
    """One demonstration a line in one file, one update's places a line in the other."""
    demonstrations.write_bytes(b"".join(orjson.dumps(asdict(each)) + b"\n" for each in lesson.shown))
    updates.write_bytes(b"".join(orjson.dumps(places) + b"\n" for places in lesson.updates))


def read_demonstrations(path: Path) -> Iterator[Demonstrated]:
    """What ``write_lesson`` wrote, one by one."""
    with path.open("rb") as file:
        for line in file:
            said = orjson.loads(line)
            yield Demonstrated(token_ids=tuple(said["token_ids"]), action_mask=tuple(said["action_mask"]))


def read_updates(path: Path) -> list[list[int]]:
    """Places of each update's demonstrations."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]
