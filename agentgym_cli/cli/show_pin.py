"""A manifest that was just made, on stdout."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from rich.markup import escape

from agentgym_cli.cli.show import print_json, stdout_console

if TYPE_CHECKING:
    from agentgym_cli.verbs.pin import Pinned


def show_pinned(pinned: Pinned, *, as_json: bool) -> None:
    """Print where a manifest is and how to use it, or the manifest itself when it was written nowhere."""
    if as_json:
        file = None if pinned.output is None else str(pinned.output)
        print_json({"file": file, "tasks": [dataclasses.asdict(row) for row in pinned.rows]})
    elif pinned.output is None:
        sys.stdout.write(pinned.text)
    else:
        stdout_console().print(escape(f"{len(pinned.rows)} tasks pinned: tasks.manifest={pinned.output}"), soft_wrap=True)
