"""An empty store in memory: made once, emptied before and after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym_cli.store.db import Connection, Patience, connect
from agentgym_cli.store.migrations import migrate
from agentgym_cli.store.tables import TABLES


@pytest.fixture(scope="session")
def migrated() -> Iterator[Connection]:
    connection = connect(Path(":memory:"), read_only=False, patience=Patience())
    migrate(connection)
    yield connection
    connection.close()


@pytest.fixture
def store(migrated: Connection) -> Iterator[Connection]:
    empty(migrated)
    yield migrated
    empty(migrated)


def empty(connection: Connection) -> None:
    """Forget every run."""
    for name in (*(table.name for table in TABLES), "journals", "episodes_final"):
        connection.execute(f"delete from {name}")
