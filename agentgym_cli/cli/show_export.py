"""What ``agentgym export`` wrote, on stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from agentgym_cli.cli.show import print_json, stdout_console

if TYPE_CHECKING:
    from agentgym_cli.verbs.export import ExportedModel


def show_exported_model(made: ExportedModel, *, as_json: bool) -> None:
    """Print where the model is and what it is."""
    if as_json:
        said = {"run": made.run, "step": made.step, "folder": str(made.folder), "parameters": made.parameters, "weights": made.weights}
        print_json(said)
        return
    console = stdout_console()
    console.print(escape(f"{made.run}, step {made.step}: {made.parameters:,} parameters in {made.folder}"), soft_wrap=True)
    console.print(f"  weights {made.weights}", soft_wrap=True)
