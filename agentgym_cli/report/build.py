"""The report of a run, or the comparison of several, from a store: read quickly, close, then assemble."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym_cli.report.assemble import Rows, assemble
from agentgym_cli.report.compare import Comparisons, compare_all
from agentgym_cli.report.learning import CURVES
from agentgym_cli.report.model import Report
from agentgym_cli.report.reproduce import weights_of
from agentgym_cli.report.side import read_side
from agentgym_cli.report.signals import WATCHED, Signals, series
from agentgym_cli.store import diagnosis_queries, gates, queries, task_queries
from agentgym_cli.store.db import Connection
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.rows import CountsRow, RunRow
from agentgym_cli.store.task_rows import LatencyRow, SpendingRow

MOST_TASKS = 500
"""Tasks of each split that a report shows one by one."""


def build_report(database: Path, run: str, x: str = "steps") -> Report:
    """Report a run named by its name, a unique beginning of it, or its folder; ``x`` is what curves are drawn against.

    Raises:
        StoreBusy: another process holds the store.
        StoreError: there is no such store or run, several runs are meant, or records stand outside the schedule.
    """
    with open_for_reading(database) as connection:
        rows = read_rows(connection, run, x)
    return assemble(rows)


def read_rows(connection: Connection, run: str, x: str = "steps") -> Rows:
    """All that a report needs of an open store. Raises StoreError as ``build_report`` does."""
    found = queries.find_run(connection, run)
    counts = queries.counts(connection, found.run)
    spending = task_queries.spending(connection, found.run)
    latencies = task_queries.latencies(connection, found.run)
    return Rows(
        run=found,
        segments=queries.segments(connection, found.run),
        counts=counts,
        reasons=task_queries.reasons(connection, found.run),
        attempts=queries.attempts(connection, found.run),
        pairs=queries.pairs(connection, found.run),
        curve=queries.curve(connection, found.run, CURVES),
        metrics=queries.metric_totals(connection, found.run),
        probes=queries.probes(connection, found.run),
        servers=queries.servers(connection, found.run),
        checkpoints=queries.checkpoints(connection, found.run),
        cells=task_queries.cells(connection, found.run),
        stages=task_queries.stages(connection, found.run),
        spending=spending,
        latencies=latencies,
        signals=_signals(connection, found, counts, latencies, spending),
        matrix=diagnosis_queries.matrix(connection, found.run, MOST_TASKS),
        gates=gates.decisions(connection, found.run),
        x=x,
        phases=task_queries.phase_spending(connection, found.run),
        weights=queries.weights(connection, digest) if (digest := weights_of(found.policy)) else (),
        axis=() if x == "steps" else diagnosis_queries.axis(connection, found.run),
    )


def _signals(connection: Connection, run: RunRow, counts: Sequence[CountsRow], latencies: Sequence[LatencyRow], spending: SpendingRow) -> Signals:
    return Signals(
        metrics=series(queries.curve(connection, run.run, WATCHED)),
        # Files that were imported do not say which turns were invalid or cut: their zeros are no evidence.
        counts=() if run.imported else counts,
        cuts=() if run.imported else diagnosis_queries.cuts(connection, run.run),
        verdicts=diagnosis_queries.verdicts(connection, run.run),
        ages=diagnosis_queries.ages(connection, run.run),
        loops=diagnosis_queries.loops(connection, run.run),
        gaps=diagnosis_queries.gaps(connection, run.run),
        latencies=latencies,
        spending=spending,
    )


def build_comparisons(database: Path, base: str, others: Sequence[str]) -> Comparisons:
    """Compare runs of one store, named as for ``build_report``, with a base run; each by its latest evaluation of every split.

    Raises:
        StoreBusy, StoreError: as ``build_report``.
    """
    with open_for_reading(database) as connection:
        sides = [read_side(connection, run) for run in (base, *others)]
    return compare_all(sides[0], sides[1:])
