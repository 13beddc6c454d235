"""Commands that launch verl on a CPU, and what the tests of launches read of a run's folder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from agentgym_cli.store.records import MetricRecord
from agentgym_cli.verbs.verl_checks import NEEDED_SHARED_MIB

RECIPE = "textcraft_grpo.yaml"
LONGEST = 900.0
"""Seconds that one launch may take on a slow machine."""
SMALL = shutil.disk_usage("/dev/shm").total < NEEDED_SHARED_MIB[True] * 1024**2
"""Whether shared memory is too small for any."""


def command(*words: str) -> list[str]:
    """This program's command line, in a process of its own."""
    return [sys.executable, "-m", "agentgym_cli", *words]


def environment() -> dict[str, str]:
    """Of that process."""
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}


def tail(folder: Path) -> str:
    """The end of all that verl said, for a test that fails."""
    return "".join(path.read_text(errors="replace")[-4000:] for path in sorted((folder / "verl").glob("*.log")))


def metrics_of(records: Sequence[object]) -> dict[str, dict[int, float]]:
    """Numbers of training steps: by name, by step."""
    found: dict[str, dict[int, float]] = {}
    for each in records:
        if isinstance(each, MetricRecord) and each.phase == "train" and each.value is not None:
            found.setdefault(each.name, {})[each.step] = each.value
    return found
