"""Reports are tested on the same store in memory as the store itself."""

from __future__ import annotations

import pytest

from agentgym_cli.report.model import Report
from agentgym_cli.store.db import Connection
from tests.report.runs import report_of, trained_run
from tests.store.conftest import empty, migrated, store

__all__ = ["migrated", "store", "trained"]


@pytest.fixture(scope="session")
def trained(migrated: Connection, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of ``trained_run``."""
    report = report_of(migrated, tmp_path_factory.mktemp("runs") / "r1", trained_run())
    empty(migrated)
    return report
