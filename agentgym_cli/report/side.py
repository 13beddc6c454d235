"""A run as a comparison and a gate see it, from an open store: the latest evaluation of every split, with all that is known of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentgym_cli.report.accounting import account_first_attempts, account_rows, ledger, untold
from agentgym_cli.report.assemble import latency_of
from agentgym_cli.report.choice import choice_of
from agentgym_cli.report.compare import Judged, Played, Side
from agentgym_cli.report.conditions import read_conditions
from agentgym_cli.report.degraded import degraded_run
from agentgym_cli.report.environments import Whole
from agentgym_cli.report.figures import FirstAttempts
from agentgym_cli.report.frozen import FrozenFacts, read_facts
from agentgym_cli.store import queries, task_queries
from agentgym_cli.store.db import Connection
from agentgym_cli.store.rows import AttemptsRow, CountsRow, ReasonRow, RunRow
from agentgym_cli.store.task_rows import CellRow, LatencyRow


def read_side(connection: Connection, run: str) -> Side:
    """All that a comparison needs of a run. Raises StoreError as ``build_report`` does."""
    found = queries.find_run(connection, run)
    counts = queries.counts(connection, found.run)
    facts = read_facts(found.frozen)
    asked = _Evaluated(
        run=found,
        facts=facts,
        reasons=task_queries.reasons(connection, found.run),
        cells=task_queries.cells(connection, found.run),
        latencies=task_queries.latencies(connection, found.run),
        attempts=queries.attempts(connection, found.run),
    )
    latest = dict(_latest(counts))
    return Side(
        run=found.run,
        recipe=found.name,
        policy=found.policy,
        status=found.status or "in progress",
        label="imported" if found.imported else "laptop result" if found.profile == "laptop" else None,
        digest=found.digest,
        drift=tuple(sentence for row in queries.segments(connection, found.run) for sentence in row.drift),
        degraded=degraded_run(counts, facts),
        conditions=read_conditions(found.frozen, env=found.env, policy=found.policy),
        splits={split: _judged(connection, asked, rows) for split, rows in latest.items()},
        whole=asked.whole(list(latest.values())),
        cells=[cell for rows in latest.values() for cell in asked.cells_of(rows[0])],
    )


def _latest(counts: Sequence[CountsRow]) -> Iterable[tuple[str, list[CountsRow]]]:
    """Every split with the rows of its latest evaluation, in the order of phases and steps."""
    rows = [row for row in counts if row.phase.startswith("eval")]
    for split in dict.fromkeys(row.split for row in rows):
        ordered = [row for row in rows if row.split == split]
        last = max(ordered, key=lambda row: (row.step or 0, ordered.index(row)))
        yield split, [row for row in ordered if (row.phase, row.step) == (last.phase, last.step)]


def _judged(connection: Connection, asked: _Evaluated, rows: Sequence[CountsRow]) -> Judged:
    phase, split, step, infra = rows[0].phase, rows[0].split, rows[0].step or 0, untold(asked.run.imported)
    return Judged(
        phase=phase,
        step=step,
        accounting=account_rows(rows, infra_unknown=infra),
        played=asked.played(rows),
        categories={row.category: account_rows([row], infra_unknown=infra) for row in rows if row.category},
        tasks=task_queries.tasks(connection, asked.run.run, phase=phase, split=split, step=step),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evaluated:
    """What is known of a run's evaluations, beside their counts."""

    run: RunRow
    facts: FrozenFacts
    reasons: Sequence[ReasonRow]
    cells: Sequence[CellRow]
    latencies: Sequence[LatencyRow]
    attempts: Sequence[AttemptsRow]

    def cells_of(self, part: CountsRow) -> list[CellRow]:
        """Tasks of one evaluation of one split."""
        return [cell for cell in self.cells if (cell.phase, cell.split, cell.step) == (part.phase, part.split, part.step)]

    def played(self, rows: Sequence[CountsRow]) -> Played:
        """Of one evaluation of one split, from its rows by category."""
        key = (rows[0].phase, rows[0].split, rows[0].step)
        return Played(
            ledger=ledger([row for row in self.reasons if (row.phase, row.split, row.step) == key], left_out=self._left_out(rows)),
            first_attempts=self._first(rows),
            latency=next((latency_of(row) for row in self.latencies if (row.phase, row.split, row.step) == key), None),
        )

    def whole(self, splits: Sequence[Sequence[CountsRow]]) -> Whole | None:
        """Of several evaluations together; None where there is none."""
        if not splits:
            return None
        rows, keys = [row for split in splits for row in split], {(row[0].phase, row[0].split, row[0].step) for row in splits}
        left_out = [self._left_out(split) for split in splits]
        known = [count for count in left_out if count is not None]
        return Whole(
            splits=tuple(split[0].split for split in splits),
            accounting=account_rows(rows, infra_unknown=untold(self.run.imported)),
            ledger=ledger(
                [row for row in self.reasons if (row.phase, row.split, row.step) in keys],
                left_out=sum(known) if len(known) == len(left_out) else None,
            ),
            first_attempts=self._first(rows),
            latency=next((latency_of(row) for row in self.latencies if row.phase is None), None),
        )

    def _first(self, rows: Sequence[CountsRow]) -> FirstAttempts:
        return FirstAttempts(retried=None, accounting=None) if self.run.imported else account_first_attempts(rows)

    def _left_out(self, rows: Sequence[CountsRow]) -> int | None:
        phase, step = rows[0].phase, rows[0].step
        begun = any(row.attempts for row in self.attempts if (row.phase, row.step) == (phase, step))
        return choice_of(self.facts, rows[0].split, tasks=sum(row.tasks for row in rows), begun=begun).left_out
