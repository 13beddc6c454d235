"""Every table and view as a Parquet file of its own. Runs are rows in them, so no name of a run is ever a path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.store.batches import batches_of, write_parquet
from agentgym_cli.store.db import Connection, rows_of

_ROWS = 100_000
"""Rows in memory at once, and in one row group."""
_NAMES = "select table_name from information_schema.tables where table_name not in ('episodes_now', 'journals') order by table_name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One file."""

    name: str
    """Of the table or view."""
    path: Path
    rows: int
    size: int
    """Bytes."""


def export_parquet(connection: Connection, folder: Path, *, force: bool = False) -> tuple[Exported, ...]:
    """Write one zstd-compressed file for each table and view of an open store.

    Raises:
        StoreError: files are there already and ``force`` is not given, or the folder cannot be written; files that were there stay whole.
    """
    names = [str(row[0]) for row in rows_of(connection, _NAMES)]
    there = [path.name for name in names if (path := folder / f"{name}.parquet").exists()]
    if there and not force:
        raise StoreError(f"{folder}: expected no files of that name, got {', '.join(there)[:200]}", "choose another folder, or add --force")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(_export(connection, name, folder / f"{name}.parquet") for name in names)
    except OSError as err:
        raise StoreError(f"{folder}: cannot write: {err.strerror or err}", "free some space or choose another folder") from err


def _export(connection: Connection, name: str, path: Path) -> Exported:
    partial = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        rows = write_parquet(batches_of(connection, f"from {name}", _ROWS), partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return Exported(name=name, path=path, rows=rows, size=path.stat().st_size)
