"""A corpus that somebody supplies, in JSON Lines or Parquet: streamed, never whole in memory. The only file that knows pyarrow here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
from pyarrow.parquet import ParquetFile

from agentgym_envs.searchqa.passages import DataError, Passage, passage_of, read_lines, shown

_ROWS = 1_000
"""Rows in memory at once."""
_FIELDS = ("title", "text", "contents")


def read_corpus(path: Path) -> Iterator[Passage]:
    """Every passage of a file in its order; fields beside title and text (or contents) are not read.

    Raises:
        DataError: at the line or row that is no passage.
        OSError: the file cannot be read.
    """
    if path.suffix.lower() == ".parquet":
        yield from _parquet(path)
    else:
        for where, value in read_lines(path):
            yield passage_of(value, where)


def _parquet(path: Path) -> Iterator[Passage]:
    number = 0
    try:
        with ParquetFile(path) as table:
            columns = [name for name in _FIELDS if name in table.schema_arrow.names]
            for batch in table.iter_batches(_ROWS, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield passage_of(row, f"{path}, row {number}")
    except pyarrow.ArrowException as err:
        raise DataError(f"{path}, after row {number}: expected a Parquet file, got {shown(str(err))}") from err
