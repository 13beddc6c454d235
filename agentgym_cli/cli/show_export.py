"""What ``agentgym export`` and ``agentgym convert`` wrote, on stdout."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape

from agentgym_cli.cli.show import print_json, stdout_console

if TYPE_CHECKING:
    from agentgym_cli.verbs.convert import Converted
    from agentgym_cli.verbs.export import ExportedModel


def show_exported_model(made: ExportedModel, *, as_json: bool) -> None:
    """Print where the model is and what it is."""
    if as_json:
        said = {"run": made.run, "step": made.step, "folder": str(made.folder), "parameters": made.parameters, "weights": made.weights}
        print_json(said | {"apart": None if made.apart is None else asdict(made.apart)})
        return
    console = stdout_console()
    console.print(escape(f"{made.run}, step {made.step}: {made.parameters:,} parameters in {made.folder}"), soft_wrap=True)
    console.print(f"  weights {made.weights}", soft_wrap=True)
    if made.said is not None:
        console.print(escape(f"  log-probabilities {made.said}"), soft_wrap=True)


def show_converted(made: Converted, *, as_json: bool) -> None:
    """Print where the model is and whether its file is a pinned one."""
    if as_json:
        said = {"file": str(made.file), "digest": made.digest, "pinned": made.pinned, "folder": str(made.folder), "parameters": made.parameters}
        print_json(said)
        return
    console = stdout_console()
    console.print(escape(f"{made.file.name}: {made.parameters:,} parameters in {made.folder}"), soft_wrap=True)
    pinned = "not a file of lockfiles/models.yaml" if made.pinned is None else f"as pinned for {made.pinned}"
    console.print(escape(f"  file {made.digest}, {pinned}"), soft_wrap=True)
