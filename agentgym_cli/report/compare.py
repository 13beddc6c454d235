"""Two runs side by side: what keeps them from being compared, and what they differ by on the tasks that both have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym_cli.report.conditions import Conditions, Incomparable, incomparable
from agentgym_cli.report.differences import Difference, Pair, adjusted, conditional, end_to_end, reward
from agentgym_cli.report.environments import Environment, EnvironmentAverages, Whole, average_environments
from agentgym_cli.report.figures import Accounting, FirstAttempts, Ledger
from agentgym_cli.report.model import SCHEMA, Latency
from agentgym_cli.store.task_rows import CellRow, TaskRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What else is known of all episodes of one split of one run, beside both denominators."""

    ledger: Ledger
    first_attempts: FirstAttempts
    latency: Latency | None
    """None where no turn was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One split as one run was judged on it last."""

    phase: str
    step: int
    accounting: Accounting
    played: Played
    categories: Mapping[str, Accounting]
    tasks: Sequence[TaskRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run, as far as a comparison needs it."""

    run: str
    recipe: str
    policy: str
    status: str
    label: str | None
    """``laptop result`` where it is one."""
    digest: str | None
    drift: tuple[str, ...]
    degraded: str | None
    """Why the run is degraded; None where it is not, or its recipe is not known."""
    conditions: Conditions
    splits: Mapping[str, Judged]
    whole: Whole | None = None
    """Its splits together; None where it was judged on none."""
    cells: Sequence[CellRow] = ()
    """The tasks of all its splits by what became of their episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPair:
    """One task that came out differently."""

    task: str
    category: str
    base: str
    """``1 of 4``: successes of scheduled."""
    other: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryComparison:
    """One category of one split."""

    name: str
    base: Accounting | None
    """None where the base run has no such category."""
    other: Accounting | None
    end_to_end: Difference
    conditional: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitComparison:
    """One split in both runs. Accountings count all of a run's tasks, differences only those that both have."""

    split: str
    base_weights: str
    """``eval_after, step 330``: the evaluation that is compared."""
    other_weights: str
    base: Accounting
    """Under the retry policy, as is the other; ``base_played`` and ``other_played`` have the first attempts."""
    other: Accounting
    base_played: Played
    other_played: Played
    pairs: int
    only_base: tuple[str, ...]
    """Tasks that only the base run has, by name; in none of the differences."""
    only_other: tuple[str, ...]
    other_content: tuple[str, ...]
    """Tasks with one name and two contents; in none of the differences."""
    not_pinned: int
    """Pairs that are known by their numbers alone."""
    end_to_end: Difference
    conditional: Difference
    reward: Difference
    categories: tuple[CategoryComparison, ...]
    changed: tuple[TaskPair, ...]
    """Tasks whose end-to-end success differs."""
    incomparable: tuple[Incomparable, ...] = ()
    """What keeps these numbers from being like for like: the conditions of both runs, and the tasks of this split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Who is compared."""

    run: str
    env: str
    recipe: str
    policy: str
    status: str
    label: str | None
    digest: str | None
    drift: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """A run against a base run."""

    base: RunSummary
    other: RunSummary
    incomparable: tuple[Incomparable, ...]
    """What has to be said beside every number; empty when nothing speaks against the comparison."""
    splits: tuple[SplitComparison, ...]
    only_base: tuple[str, ...]
    """Splits that only the base run was judged on."""
    only_other: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """Several runs: each against the first, and, where they are of several environments, all of them side by side."""

    comparisons: tuple[RunComparison, ...]
    environments: tuple[Environment, ...]
    """Every run with an evaluation, by environment; empty where all are of one environment."""
    averages: tuple[EnvironmentAverages, ...]
    """Over environments, for every policy that was judged in several."""
    schema: int = SCHEMA


def compare(base: Side, other: Side) -> RunComparison:
    """The other run against the base run, split by split; Holm's p-values are over the splits, and over the categories of each."""
    both = [split for split in base.splits if split in other.splits]
    conditions = tuple(incomparable(base.conditions, other.conditions))
    found = [_split(split, base.splits[split], other.splits[split]) for split in both]
    splits = [replace(split, incomparable=(*conditions, *_other_tasks([split]))) for split in found]
    return _family(
        [
            RunComparison(
                base=_summary(base),
                other=_summary(other),
                incomparable=(*conditions, *_other_tasks(splits)),
                splits=tuple(splits),
                only_base=tuple(split for split in base.splits if split not in other.splits),
                only_other=tuple(split for split in other.splits if split not in base.splits),
            )
        ]
    )[0]


def compare_all(base: Side, others: Sequence[Side]) -> Comparisons:
    """Several runs against one, with Holm's p-values over all of them and their splits; runs of several environments side by side too."""
    sides = (base, *others)
    several = len({side.conditions.env for side in sides}) > 1
    found = [
        Environment(run=side.run, policy=side.policy, conditions=side.conditions, whole=side.whole)
        for side in sides
        if several and side.whole is not None
    ]
    return Comparisons(
        comparisons=_family([compare(base, other) for other in others]),
        environments=tuple(sorted(found, key=lambda each: each.conditions.env)),
        averages=tuple(average_environments(found, {side.run: side.cells for side in sides})),
    )


def _family(comparisons: Sequence[RunComparison]) -> tuple[RunComparison, ...]:
    """Adjust each kind of difference over every split of every comparison."""
    splits = [split for comparison in comparisons for split in comparison.splits]
    ends = adjusted([split.end_to_end for split in splits])
    conditions = adjusted([split.conditional for split in splits])
    rewards = adjusted([split.reward for split in splits])
    again = iter(replace(split, end_to_end=ends[place], conditional=conditions[place], reward=rewards[place]) for place, split in enumerate(splits))
    return tuple(replace(comparison, splits=tuple(next(again) for _ in comparison.splits)) for comparison in comparisons)


def _summary(side: Side) -> RunSummary:
    return RunSummary(
        run=side.run,
        env=side.conditions.env,
        recipe=side.recipe,
        policy=side.policy,
        status=side.status,
        label=side.label,
        digest=side.digest,
        drift=side.drift,
    )


def _split(name: str, base: Judged, other: Judged) -> SplitComparison:
    mine, theirs = {row.task: row for row in base.tasks}, {row.task: row for row in other.tasks}
    both = [Pair(base=row, other=theirs[task]) for task, row in mine.items() if task in theirs]
    strange = {pair.base.task for pair in both if pair.base.digest and pair.other.digest and pair.base.digest != pair.other.digest}
    pairs = [pair for pair in both if pair.base.task not in strange]
    return SplitComparison(
        split=name,
        base_weights=f"{base.phase}, step {base.step}",
        other_weights=f"{other.phase}, step {other.step}",
        base=base.accounting,
        other=other.accounting,
        base_played=base.played,
        other_played=other.played,
        pairs=len(pairs),
        only_base=tuple(task for task in mine if task not in theirs),
        only_other=tuple(task for task in theirs if task not in mine),
        other_content=tuple(task for task in mine if task in strange),
        not_pinned=sum(not (pair.base.digest and pair.other.digest) for pair in pairs),
        end_to_end=end_to_end(pairs),
        conditional=conditional(pairs),
        reward=reward(pairs),
        categories=_categories(base, other, pairs),
        changed=tuple(_changed(pairs)),
    )


def _categories(base: Judged, other: Judged, pairs: Sequence[Pair]) -> tuple[CategoryComparison, ...]:
    names = sorted({*base.categories, *other.categories})
    of = [[pair for pair in pairs if pair.base.category == name] for name in names]
    ends, conditions = adjusted(list(map(end_to_end, of))), adjusted(list(map(conditional, of)))
    return tuple(
        CategoryComparison(name=name, base=base.categories.get(name), other=other.categories.get(name), end_to_end=end, conditional=condition)
        for name, end, condition in zip(names, ends, conditions, strict=True)
    )


def _changed(pairs: Sequence[Pair]) -> Iterator[TaskPair]:
    for pair in pairs:
        mine, theirs = pair.base, pair.other
        if mine.success * theirs.scheduled != theirs.success * mine.scheduled:
            yield TaskPair(
                task=mine.task,
                category=mine.category,
                base=f"{mine.success} of {mine.scheduled}",
                other=f"{theirs.success} of {theirs.scheduled}",
            )


def _other_tasks(splits: Sequence[SplitComparison]) -> Iterator[Incomparable]:
    for split in splits:
        if split.other_content:
            count = len(split.other_content)
            yield Incomparable(
                what="tasks",
                ours=f"{split.split}: {count} tasks",
                theirs=f"{count} of the same names",
                why="their contents differ; they are left out",
            )
        if split.only_base or split.only_other:
            yield Incomparable(
                what="tasks",
                ours=f"{split.split}: {len(split.only_base)} more",
                theirs=f"{len(split.only_other)} more",
                why="only tasks that both have are compared",
            )
        if split.not_pinned:
            yield Incomparable(
                what="tasks",
                ours=f"{split.split}: {split.not_pinned} tasks known by number",
                theirs="the same numbers",
                why="nobody can say whether their contents were the same",
            )
