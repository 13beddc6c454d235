"""One run's evaluations before and after its training, split by split."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isclose

import numpy as np

from agentgym_cli.report.accounting import account_rows, change
from agentgym_cli.report.differences import share_interval
from agentgym_cli.report.figures import Change, Rate
from agentgym_cli.report.model import Comparison
from agentgym_cli.report.statistics.intervals import Interval, difference
from agentgym_cli.store.rows import CountsRow, PairRow


def before_and_after(counts: Sequence[CountsRow], pairs: Sequence[PairRow]) -> Iterable[Comparison]:
    """Every split that was evaluated both before and after."""
    for split in dict.fromkeys(row.split for row in counts):
        before, after = ([row for row in counts if (row.phase, row.split) == (phase, split)] for phase in ("eval_before", "eval_after"))
        if before and after:
            yield _comparison(split, before, after, [row for row in pairs if row.split == split])


def _comparison(split: str, before: Sequence[CountsRow], after: Sequence[CountsRow], pairs: Sequence[PairRow]) -> Comparison:
    old, new = account_rows(before), account_rows(after)
    once = all(row.most_samples == 1 for row in (*before, *after))
    ends = [(row.tasks, row.before_success, row.before_scheduled, row.after_success, row.after_scheduled) for row in pairs]
    conditions = [(row.tasks, row.before_success, row.before_scored, row.after_success, row.after_scored) for row in pairs]
    return Comparison(
        split=split,
        before=old,
        after=new,
        end_to_end=_change(old.end_to_end, new.end_to_end, ends, once),
        conditional=_change(old.conditional, new.conditional, conditions, once),
    )


_Kind = tuple[int, int, int, int, int]
"""Tasks that are alike: how many, and of each the successes and episodes before, the successes and episodes after."""


def _change(old: Rate, new: Rate, kinds: Sequence[_Kind], once: bool) -> Change:
    """Paired by task where the tasks that count are the same in both, else as independent samples where every task has one episode."""
    independent = difference(new.count, new.denominator, old.count, old.denominator) if once else None
    return change(old, new, _paired(old, new, kinds) or independent)


def _paired(old: Rate, new: Rate, kinds: Sequence[_Kind]) -> Interval | None:
    """None where the mean difference by task is another number than the difference of the two rates."""
    kept = [kind for kind in kinds if kind[2] and kind[4]]
    if old.value is None or new.value is None or not kept:
        return None
    tasks, old_success, old_episodes, new_success, new_episodes = (np.array(column) for column in zip(*kept, strict=True))
    gaps = np.repeat(new_success / new_episodes - old_success / old_episodes, tasks)
    if not isclose(float(gaps.mean()), new.value - old.value, abs_tol=1e-9):
        return None
    first, _ = share_interval(gaps, once=bool((old_episodes == 1).all() and (new_episodes == 1).all()))
    return first
