"""Episodes as a table of comma-separated values that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import StringIO

from agentgym_cli.report.text import for_csv


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A header and a line for each row; no data is an empty cell, texts are guarded, numbers are as they are."""
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return stream.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else for_csv(value) if isinstance(value, str) else value
