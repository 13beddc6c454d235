"""The task lists of a run: the splits that a recipe selects by name, by number or by a published list. Asks no environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.data import find_data, try_find
from agentgym_cli.recipe.manifest import MAX_INDEX_DIGITS, read_manifest
from agentgym_cli.recipe.manifest import TaskRow as TaskRow
from agentgym_cli.recipe.overlap import Overlap, overlap, twins
from agentgym_cli.recipe.published import read_published
from agentgym_cli.recipe.schema.world import SplitSpec, TasksSpec
from agentgym_cli.recipe.wording import asked, listed, shown

MOST_TASKS = 1_000_000
"""Of one split."""
NOT_PINNED = (
    "tasks.manifest: null: content of tasks is not pinned: a server with another order or content of tasks is not noticed; "
    "agentgym recipe pin writes a manifest"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLists:
    """The tasks of a run, in drawing order; each row's ``split`` is the name that the recipe gives."""

    train: tuple[TaskRow, ...]
    """Empty in a recipe that only evaluates."""
    evaluation: Mapping[str, tuple[TaskRow, ...]]
    warnings: tuple[str, ...] = ()
    """What a reader of results must know of these lists; to be shown and stored."""
    overlaps: tuple[Overlap, ...] = ()
    """What evaluation splits share with training, where the recipe allows it."""

    def rows(self) -> tuple[TaskRow, ...]:
        """Training, then every evaluation split; a task of two splits comes twice."""
        return (*self.train, *(row for split in self.evaluation.values() for row in split))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What splits are selected from."""

    manifest: Mapping[int, TaskRow] | None = None
    """By number; None where tasks are known by number alone."""
    size: int | None = None
    """Numbers from here on are errors; None where nobody knows."""
    env: str
    """What ids of a published list start with: the dialect's name."""
    beside: Sequence[Path] = ()
    """Where published lists are looked for first."""


def select_tasks(spec: TasksSpec, *, env: str, beside: Sequence[Path]) -> TaskLists:
    """The task lists of a recipe, its files looked for in the folders of ``beside`` first.

    Args:
        env: name of the dialect.

    Raises:
        RecipeError: a file is missing or broken, a split is empty or cannot be meant, or an evaluation split that ``allow_overlap`` does not
            name shares a task with training, by number or by content.
    """
    path = None if spec.manifest is None else find_data(spec.manifest, beside=beside, where="tasks.manifest")
    rows = None if path is None else {row.index: row for row in read_manifest(path)}
    pool = Pool(manifest=rows, size=spec.size, env=env, beside=beside)
    _refuse_missing(spec, pool)
    at = "" if path is None else f" ({path})"
    warnings: list[str] = []
    train = select(spec.train, pool, where=f"tasks.train{at}", warnings=warnings) if spec.train is not None else ()
    evaluation: dict[str, tuple[TaskRow, ...]] = {}
    overlaps: list[Overlap] = []
    for number, split in enumerate(spec.evaluation):
        where = f"tasks.evaluation[{number}]{at}"
        evaluation[split.name] = select(split, pool, where=where, warnings=warnings)
        warnings += twins(evaluation[split.name], split=split.name)
        if (shared := overlap(train, evaluation[split.name], split=split.name)) is not None:
            overlaps.append(_allowed(shared, spec.allow_overlap, where))
            warnings.append(
                f"tasks.allow_overlap: split {split.name} shares {shared.count} of {shared.tasks} tasks with training: {shared.described()}"
            )
    lists = TaskLists(train=train, evaluation=evaluation, overlaps=tuple(overlaps))
    return replace(lists, warnings=(*warnings, *_not_pinned(lists.rows(), manifest=rows is not None)))


def select(spec: SplitSpec, pool: Pool, *, where: str, warnings: list[str]) -> tuple[TaskRow, ...]:
    """Rows of one split, in the order of its file, of its ids or of the manifest, renamed to the split.

    Args:
        warnings: gets a sentence where ``ids`` were taken in place of a file that is not there.

    Raises:
        RecipeError: nothing is selected, a task is named twice or is not there; starts with ``where``, or names the file.
    """
    published = None if spec.file is None else try_find(spec.file, beside=pool.beside)
    if published is not None:
        there = read_published(published, env=pool.env)
        picked = _picked(((index, str(published)) for index in there), pool, spec.name, f"{where}: file")
    elif spec.ids is not None:
        picked = _picked(_numbers(spec.ids, f"{where}: ids"), pool, spec.name, f"{where}: ids")
    elif spec.file is not None:
        raise _no_list([spec.file], pool.env, where)
    else:
        picked = _named(spec.name, pool, where)
    kept = _of_categories(_without(picked, spec, where), spec, pool, where)
    if spec.file is not None and published is None:
        warnings.append(_in_place_of(spec.file, len(kept), where))
    return tuple(row if row.split == spec.name else replace(row, split=spec.name) for row in kept.values())


Rows = dict[int, TaskRow]


def _named(name: str, pool: Pool, where: str) -> Rows:
    """All rows of the manifest whose split has this name."""
    if pool.manifest is None:
        raise RecipeError(f"{where}: expected ids or a file, since there is no manifest, got neither", "give ids: 0-99, or tasks.manifest")
    chosen = {row.index: row for row in pool.manifest.values() if row.split == name}
    if not chosen:
        known = sorted({row.split for row in pool.manifest.values() if row.split})
        raise RecipeError(f"{where}: expected a split of the manifest ({listed(known) or 'none'}), got {shown(name)}", asked(name, known) or None)
    if pool.size is not None and (beyond := max(chosen)) >= pool.size:
        raise RecipeError(f"{where}: expected tasks below tasks.size ({pool.size}), got {beyond} in the manifest")
    return chosen


def _picked(numbers: Iterator[tuple[int, str]], pool: Pool, split: str, where: str) -> Rows:
    """Rows by number, in this order; each number comes with the words in which it was said."""
    picked: Rows = {}
    for index, said in numbers:
        if index in picked:
            raise RecipeError(f"{where}: expected each task once, got {index} again")
        if pool.manifest is not None and index not in pool.manifest:
            raise RecipeError(f"{where}: expected tasks of the manifest, got {_in_words(index, said)}")
        if pool.size is not None and index >= pool.size:
            raise RecipeError(f"{where}: expected tasks below tasks.size ({pool.size}), got {_in_words(index, said)}")
        if len(picked) == MOST_TASKS:
            raise RecipeError(f"{where}: expected at most {MOST_TASKS} tasks, got more with {said}")
        picked[index] = TaskRow(index=index, split=split, category="", goal="", digest="") if pool.manifest is None else pool.manifest[index]
    return picked


def _in_words(index: int, said: str) -> str:
    return said if said == str(index) else f"{index} in {said}"


def _numbers(ids: str, where: str) -> Iterator[tuple[int, str]]:
    for part in ids.split(","):
        for index in _range(part, where):
            yield index, part


def _range(part: str, where: str) -> range:
    """The numbers of ``7`` or ``3-7``."""
    first, _, last = part.partition("-")
    if not part.isascii() or max(len(first), len(last)) > MAX_INDEX_DIGITS:
        raise RecipeError(f"{where}: expected task numbers, got {shown(part)}")
    low, high = int(first), int(last or first)
    if high < low:
        raise RecipeError(f"{where}: expected a range that rises, got {part}")
    return range(low, high + 1)


def _without(picked: Rows, spec: SplitSpec, where: str) -> Rows:
    """``picked`` less what is excluded; every part of ``exclude`` leaves out something."""
    if spec.exclude is None:
        return picked
    excluded: set[int] = set()
    for part in spec.exclude.split(","):
        numbers = _range(part, f"{where}: exclude")
        met = set(numbers) & picked.keys() if len(numbers) < len(picked) else {index for index in picked if index in numbers}
        if not met:
            raise RecipeError(f"{where}: exclude: expected numbers of the split's tasks, got none of them in {part}")
        excluded |= met
    if len(excluded) == len(picked):
        raise RecipeError(f"{where}: exclude: expected to leave a task, got {shown(spec.exclude)}, which leaves out all of them")
    return {index: row for index, row in picked.items() if index not in excluded}


def _of_categories(picked: Rows, spec: SplitSpec, pool: Pool, where: str) -> Rows:
    if spec.categories is None:
        return picked
    known = sorted({row.category for row in picked.values() if row.category})
    for category in spec.categories:
        if category not in known:
            hint = asked(category, known) or "a category is what a manifest says in its column: name one with tasks.manifest"
            raise RecipeError(f"{where}: categories: expected some of the split's ({listed(known) or 'none'}), got {shown(category)}", hint)
    return {index: row for index, row in picked.items() if row.category in spec.categories}


def _refuse_missing(spec: TasksSpec, pool: Pool) -> None:
    """Name every published list that is not there and has no stand-in, before the first of them is needed."""
    splits = [("tasks.train", spec.train), *((f"tasks.evaluation[{number}]", split) for number, split in enumerate(spec.evaluation))]
    missing = [(where, split.file) for where, split in splits if split is not None and split.file is not None and split.ids is None]
    missing = [(where, file) for where, file in missing if try_find(file, beside=pool.beside) is None]
    if missing:
        raise _no_list([file for _, file in missing], pool.env, listed(where for where, _ in missing))


class MissingLists(RecipeError):
    """Published lists that the person supplies are not there."""


def _no_list(files: Sequence[str], env: str, where: str) -> MissingLists:
    return MissingLists(
        f"{where}: file: expected published lists of ids ({env}_NUMBER) beside the recipe, in the current folder or shipped, got "
        f"{listed(map(shown, files))}, which {'are' if len(files) > 1 else 'is'} in none of them",
        hint="put the published lists there under these names (they do not ship with agentgym), or give ids in their place",
    )


def _in_place_of(file: str, count: int, where: str) -> str:
    return (
        f"{where}: file: {shown(file)} was not found, so the {count} tasks that the recipe gives by number are taken in its place: "
        "the published list may have others, and results on these are not results on it"
    )


def _allowed(shared: Overlap, allowed: Sequence[str], where: str) -> Overlap:
    if shared.split not in allowed:
        raise RecipeError(
            f"{where}: expected no task of the training split, got {shared.described()}",
            hint=f"leave them out of one of the two (exclude), or allow it by name: tasks.allow_overlap: [{shared.split}]",
        )
    return shared


def _not_pinned(rows: Sequence[TaskRow], *, manifest: bool) -> Iterator[str]:
    without = sum(not row.digest for row in rows)
    if not manifest:
        yield NOT_PINNED
    elif without:
        yield f"tasks.manifest: expected a digest for every task, got {without} of {len(rows)} without: their content is not pinned"
