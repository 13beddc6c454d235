"""The page about the store says what the store is."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.describe import current_page, describe_store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "store.md"


@pytest.mark.slow
def test_the_page_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == current_page(page), "python -m agentgym_cli.store.describe docs/store.md brings it up to date"


def test_every_table_view_and_column_has_a_meaning(migrated: Connection) -> None:
    text = describe_store(migrated)
    for table, column in rows_of(migrated, "select table_name, column_name from information_schema.columns"):
        section = text.split(f"### {table}\n")[1].split("### ")[0]
        row = next(line for line in section.splitlines() if line.startswith(f"| `{column}` |"))
        assert len(row.split("|")[3].strip()) > 5
