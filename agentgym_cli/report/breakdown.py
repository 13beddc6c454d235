"""What a part of a run is counted by beside itself: categories of its tasks, stages of the horizon. Rates come from accounting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from agentgym_cli.report.accounting import account_cells, account_first_attempts, account_first_cells, account_rows, ledger, untold
from agentgym_cli.report.figures import FirstAttempts
from agentgym_cli.report.model import Category, StageAccount
from agentgym_cli.store.rows import CountsRow, ReasonRow
from agentgym_cli.store.task_rows import CellRow, StageRow

_UNKNOWN = FirstAttempts(retried=None, accounting=None)
"""Imported files do not say which attempt an episode is."""


def by_category(
    counts: Sequence[CountsRow],
    cells: Sequence[CellRow],
    reasons: Sequence[ReasonRow],
    *,
    left_out: Mapping[str, int] | None,
    imported: str | None,
) -> tuple[Category, ...]:
    """Every category of one part, '' among them where tasks have none.

    Args:
        counts: one row for each category of the part; ``cells`` and ``reasons`` are of the same part.
        left_out: tasks of each category that were not scheduled by choice; None where nobody can say.
        imported: format of the files that it was imported from, None for our own.
    """
    return tuple(
        Category(
            name=row.category,
            accounting=account_rows([row], [cell for cell in cells if cell.category == row.category], untold(imported)),
            ledger=ledger(
                [reason for reason in reasons if reason.category == row.category],
                left_out=None if left_out is None else left_out.get(row.category, 0),
            ),
            first_attempts=_UNKNOWN if imported else account_first_attempts([row]),
        )
        for row in counts
    )


def stage_accounts(cells: Sequence[StageRow], reasons: Sequence[ReasonRow], imported: str | None) -> Iterable[StageAccount]:
    """Training by horizon, in the order of the steps; arguments are as in ``by_category``, of the whole run."""
    for (horizon, first, last), group in groupby(cells, key=lambda row: (row.horizon, row.first_step, row.last_step)):
        rows = list(group)
        yield StageAccount(
            horizon=horizon,
            first_step=first,
            last_step=last,
            accounting=account_cells(rows, untold(imported)),
            ledger=ledger([row for row in reasons if row.phase == "train" and row.horizon == horizon], left_out=None),
            first_attempts=_UNKNOWN if imported else account_first_cells(rows),
        )
