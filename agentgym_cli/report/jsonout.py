"""A report as JSON: every value of the model under its name, keys sorted."""

from __future__ import annotations

import json
from dataclasses import asdict

from agentgym_cli.report.model import Report


def to_json(report: Report) -> str:
    """The report as indented JSON; no data is null."""
    return json.dumps(asdict(report), sort_keys=True, ensure_ascii=False, allow_nan=False, indent=1)
