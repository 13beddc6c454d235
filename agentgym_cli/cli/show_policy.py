"""What the checks of a policy found, on stdout and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.cli.show_probe import coloured, write_result
from agentgym_cli.recipe.canonical import printed_json
from agentgym_cli.report.text import for_terminal

if TYPE_CHECKING:
    from agentgym_cli.verbs.qualify import Qualification

_LONGEST = 900
"""Most characters of a detail that are shown."""


def show_qualification(found: Qualification, *, as_json: bool, output: Path | None = None) -> None:
    """Print every check and write the file that was asked for. Raises PolicyError (exit 5) when a check failed."""
    values = {
        "model": found.model,
        "profile": found.profile,
        "engine": found.engine,
        "ok": not found.failed,
        "checks": [asdict(check) for check in found.checks],
    }
    if as_json:
        print_json(values)
    else:
        _print(found, stdout_console())
    if output is not None:
        write_result(output, printed_json(values, indent=2) + "\n")
    if found.failed:
        raise found.failure()


def _print(found: Qualification, console: Console) -> None:
    title = f"policy {_clean(found.model)} (profile {found.profile}, engine {found.engine})"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    for name, least in (("check", 12), ("result", 15), ("detail", 30)):
        table.add_column(name, min_width=least, overflow="fold")
    for check in found.checks:
        table.add_row(check.name, coloured(check.result, check.result), _clean(check.detail))
    console.print(table)


def _clean(text: str) -> str:
    return escape(for_terminal(text, limit=_LONGEST))
