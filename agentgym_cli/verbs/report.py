"""``agentgym report`` and ``agentgym store``: what the store says of a run, and the store made again from journals."""

from __future__ import annotations

from pathlib import Path

from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.report.build import build_report
from agentgym_cli.report.model import Report
from agentgym_cli.store.digest import ResultsDigest, results_digest
from agentgym_cli.store.loader import LoadReport
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.queries import find_run
from agentgym_cli.store.rebuild import rebuild


def report_on(run: str, database: Path) -> Report:
    """Build the report of one run. Raises StoreError when there is no such store or run."""
    if not database.is_file():
        got = "a folder" if database.is_dir() else "no such file"
        raise StoreError(f"{database}: expected a store, got {got}", "name it with --store FILE, or make it: agentgym store rebuild")
    return build_report(database, run)


def digest_results(run: str, database: Path) -> tuple[str, ResultsDigest]:
    """The run's name and the digest of its results, part by part. Raises StoreError."""
    with open_for_reading(database) as connection:
        found = find_run(connection, run)
        return found.run, results_digest(connection, found.run)


def rebuild_store(runs_dir: Path, database: Path) -> list[LoadReport]:
    """Make a store again from the journals of all runs in a folder. Raises RecipeError when there is no such folder."""
    if not runs_dir.is_dir():
        raise RecipeError(f"{runs_dir}: expected a folder of runs, got none", "name it with --runs-dir DIR")
    return rebuild(runs_dir, database)
