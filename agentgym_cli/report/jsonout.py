"""A report as JSON: every value of the model under its name, keys sorted."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite

from agentgym_cli.recipe.canonical import printed_json
from agentgym_cli.report.compare import Comparisons
from agentgym_cli.report.gate import Decision
from agentgym_cli.report.model import Report


def to_json(found: Report | Comparisons | Decision) -> str:
    """What was found as indented JSON; no data is null, and so is a sum that no number can hold."""
    return printed_json(_finite(asdict(found)), indent=1)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
