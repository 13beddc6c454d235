"""What ``agentgym store check``, ``export`` and ``import`` found and made, on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from agentgym_cli.cli.show import print_json, stdout_console
from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.wording import shown
from agentgym_cli.report.text import for_terminal

if TYPE_CHECKING:
    from agentgym_cli.store.check import RunCheck
    from agentgym_cli.store.export import Exported
    from agentgym_cli.verbs.store import Imported

_LONGEST = 600
"""Most characters of a name or a fault that are shown."""


def show_checked(checks: Sequence[RunCheck], database: Path, *, as_json: bool) -> None:
    """Print what was found, run by run. Raises StoreError when anything is wrong."""
    faults = [f"{check.run}: {fault}" for check in checks for fault in check.faults]
    if as_json:
        print_json({"runs": [asdict(check) for check in checks], "ok": not faults})
    else:
        console = stdout_console()
        for check in checks:
            counts = f"{check.success} success, {check.failure} failure, {check.infra_error} infra_error, {check.missing} missing"
            superseded = f"; {check.superseded} records superseded" if check.superseded else ""
            console.print(escape(f"{for_terminal(check.run, limit=_LONGEST)}: {check.scheduled} scheduled = {counts}{superseded}"), soft_wrap=True)
            console.print(f"  results {check.digest or 'n/a'}", soft_wrap=True)
            for fault in check.faults:
                console.print(escape(f"  wrong: {for_terminal(fault, limit=_LONGEST)}"), soft_wrap=True)
    if faults:
        first = shown(faults[0]) if len(faults[0]) < 60 else faults[0][:200]
        raise StoreError(
            f"{database}: expected a store that agrees with its journals, got {len(faults)} faults, the first {first}",
            "agentgym store rebuild makes the store again from the journals",
        )


def show_exported(files: Sequence[Exported], *, as_json: bool) -> None:
    """Print each file with its rows and size."""
    if as_json:
        print_json([{"name": file.name, "path": str(file.path), "rows": file.rows, "bytes": file.size} for file in files])
        return
    for file in files:
        stdout_console().print(escape(f"{file.path}: {file.rows:,} rows, {file.size:,} bytes"), soft_wrap=True)


def show_imported(made: Imported, *, as_json: bool) -> None:
    """Print what was imported and what is not known of it."""
    if as_json:
        print_json({"run": made.run, "folder": str(made.folder), "files": made.files, "episodes": made.episodes})
        return
    console = stdout_console()
    console.print(
        escape(f"{for_terminal(made.run, limit=_LONGEST)}: {made.episodes} episodes of {made.files} files, in {made.folder}"), soft_wrap=True
    )
    console.print("  The schedule is not known, and infra errors cannot be told from failures; its reports say so.", soft_wrap=True)
