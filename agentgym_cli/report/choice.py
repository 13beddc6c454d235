"""What of a split an evaluation was to play by choice, and how much of that was never written down. Reads the frozen run, never what arrived."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agentgym_cli.report.frozen import FrozenFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One split of one evaluation."""

    left_out: int | None
    """Tasks that were not to be scheduled; None where nobody can say."""
    planned: int | None
    """Episodes that were to be scheduled; None where nobody can say."""


UNKNOWN = Choice(left_out=None, planned=None)


def choice_of(facts: FrozenFacts, split: str, *, tasks: int, begun: bool) -> Choice:
    """The choice of a frozen run.

    Args:
        tasks: tasks of the split that are scheduled.
        begun: an attempt of this evaluation was recorded; a schedule is complete before that, and then says which tasks ``evaluation.only`` chose.
    """
    in_split = facts.tasks.get(split)
    if in_split is None:
        return UNKNOWN
    if facts.only_splits is not None and split not in facts.only_splits:
        return Choice(left_out=in_split, planned=0)
    if facts.chooses:
        return Choice(left_out=max(0, in_split - tasks), planned=None) if begun else UNKNOWN
    chosen = in_split if facts.evaluation_limit is None else min(in_split, facts.evaluation_limit)
    return Choice(left_out=in_split - chosen, planned=None if facts.samples is None else chosen * facts.samples)


def left_out_of(facts: FrozenFacts, split: str, left_out: int | None, scheduled: Mapping[str, int]) -> Mapping[str, int] | None:
    """Tasks of each category that were not scheduled by choice, those with none left out; None where nobody can say.

    Args:
        left_out: of the whole split; None where nobody can say.
        scheduled: tasks by category.
    """
    if left_out == 0:
        return {}
    every = facts.categories.get(split)
    if left_out is None or every is None:
        return None
    found = {name: count - scheduled.get(name, 0) for name, count in every.items() if count > scheduled.get(name, 0)}
    return found if sum(found.values()) == left_out else None


def awaited(facts: FrozenFacts, scheduled: Collection[str], *, begun: bool) -> tuple[str, ...]:
    """Splits that a run is to be judged on.

    Args:
        scheduled: those that an evaluation of it scheduled.
        begun: as in ``choice_of``, of any evaluation.
    """
    chosen = [split for split in facts.tasks if facts.only_splits is None or split in facts.only_splits]
    return tuple(split for split in chosen if split in scheduled or not (facts.chooses and begun))
