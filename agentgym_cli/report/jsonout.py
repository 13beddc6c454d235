"""A report as JSON: every value of the model under its name, keys sorted."""

from __future__ import annotations

from dataclasses import asdict

from agentgym_cli.recipe.canonical import printed_json
from agentgym_cli.report.model import Report


def to_json(report: Report) -> str:
    """The report as indented JSON; no data is null."""
    return printed_json(asdict(report), indent=1)
