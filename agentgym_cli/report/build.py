"""The report of a run from a store: read quickly, close, then assemble."""

from __future__ import annotations

from pathlib import Path

from agentgym_cli.report.assemble import Rows, assemble
from agentgym_cli.report.learning import CURVES
from agentgym_cli.report.model import Report
from agentgym_cli.store import queries
from agentgym_cli.store.db import Connection
from agentgym_cli.store.opening import open_for_reading


def build_report(database: Path, run: str) -> Report:
    """Report a run named by its name, a unique beginning of it, or its folder.

    Raises:
        StoreBusy: another process holds the store.
        StoreError: there is no such store or run, several runs are meant, or records stand outside the schedule.
    """
    with open_for_reading(database) as connection:
        rows = read_rows(connection, run)
    return assemble(rows)


def read_rows(connection: Connection, run: str) -> Rows:
    """All that a report needs of an open store. Raises StoreError as ``build_report`` does."""
    found = queries.find_run(connection, run)
    return Rows(
        run=found,
        segments=queries.segments(connection, found.run),
        counts=queries.counts(connection, found.run),
        stops=queries.stops(connection, found.run),
        attempts=queries.attempts(connection, found.run),
        pairs=queries.pairs(connection, found.run),
        curve=queries.curve(connection, found.run, CURVES),
        metrics=queries.metric_totals(connection, found.run),
        probes=queries.probes(connection, found.run),
        checkpoints=queries.checkpoints(connection, found.run),
    )
