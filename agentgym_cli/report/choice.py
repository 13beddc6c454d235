"""What of a split an evaluation was to play by choice, and how much of that was never written down. Reads the frozen run, never what arrived."""

from __future__ import annotations

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
        begun: an attempt of this evaluation was recorded; a schedule is complete before that, and then says what ``evaluation.only`` chose.
    """
    in_split = facts.tasks.get(split)
    if in_split is None:
        return UNKNOWN
    if facts.chooses:
        return Choice(left_out=max(0, in_split - tasks), planned=None) if begun else UNKNOWN
    chosen = in_split if facts.evaluation_limit is None else min(in_split, facts.evaluation_limit)
    return Choice(left_out=in_split - chosen, planned=None if facts.samples is None else chosen * facts.samples)
