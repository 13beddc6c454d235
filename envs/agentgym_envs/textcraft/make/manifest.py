"""Task lists: a row for every task of a book with its split, depth, goal and content digest."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from agentgym_envs.textcraft.book import Book
from agentgym_envs.textcraft.listing import digest, first_observation, goal_of
from agentgym_envs.textcraft.make.laptop import HELD_OUT

_TRAIN_VARIANTS = range(30)
_UNSEEN_TASK_VARIANTS = range(30, 35)
_UNSEEN_GOAL_VARIANTS = range(30, 40)
_BIG_TEST = (range(31), range(140, 181), range(420, 445), range(533, 536))
_BIG_TRAIN = (range(31, 140), range(181, 420), range(445, 533), range(537, 538))
"""The published test ids, and the ranges in which the published training ids lie (upstream's own list leaves out some of them)."""


def manifest(book: Book, split_of: Callable[[Book, int], str]) -> str:
    """CSV with columns index, split, category, goal, digest; a task in no split has '' there."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("index", "split", "category", "goal", "digest"))
    for index in range(book.task_count):
        goal = goal_of(book, index)
        writer.writerow((index, split_of(book, index), f"depth {book.depths[goal]}", goal, digest(first_observation(book, index))))
    return out.getvalue()


def laptop_split(book: Book, index: int) -> str:
    """``train`` and ``unseen_tasks`` share goals and differ in listings; ``unseen_goals`` shares neither with them."""
    variant, rank = divmod(index, len(book.goals))
    if book.goals[rank] in HELD_OUT:
        return "unseen_goals" if variant in _UNSEEN_GOAL_VARIANTS else ""
    if variant in _TRAIN_VARIANTS:
        return "train"
    return "unseen_tasks" if variant in _UNSEEN_TASK_VARIANTS else ""


def big_split(book: Book, index: int) -> str:
    """The ranges of the published split."""
    if any(index in ids for ids in _BIG_TEST):
        return "test"
    return "train" if any(index in ids for ids in _BIG_TRAIN) else ""
