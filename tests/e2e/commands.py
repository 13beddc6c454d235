"""Runs ``agentgym`` as people do: a process, its words, its exit code; always with a time-out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECIPE = "recipes/textcraft_grpo.yaml"
TIMEOUT_SECONDS = 240
TINY = (
    "profile=laptop",
    "warm_start.steps=4",
    "warm_start.demonstrations=16",
    "warm_start.demonstrations_per_step=4",
    "train.steps=3",
    "train.tasks_per_step=2",
    "train.algorithm.group_size=4",
    "train.checkpoint_every=1",
    "engine.slots=16",
    "evaluation.limit=4",
    "evaluation.every=2",
    "store.keep_tokens=all",
)
"""Overrides that make the laptop recipe a matter of seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def message(self) -> list[str]:
        """The lines of the error message: what was wrong, and what to do."""
        return [line for line in self.err.splitlines() if line.startswith(("error:", "hint:"))]


def command(*words: str) -> list[str]:
    """The command line of ``agentgym WORDS``."""
    return [sys.executable, "-m", "agentgym_cli", *words]


def environment(**more: str) -> dict[str, str]:
    """This process's environment with what makes output the same everywhere."""
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "80", **more}


def run(folder: Path, *words: str, variables: Mapping[str, str] | None = None, timeout: float = TIMEOUT_SECONDS) -> Ended:
    """Run ``agentgym WORDS`` in a folder to its end."""
    ended = subprocess.run(
        command(*words), cwd=folder, env=environment(**(variables or {})), capture_output=True, text=True, timeout=timeout, check=False
    )
    return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start ``agentgym WORDS`` in a folder; the caller ends it."""
    return subprocess.Popen(
        command(*words), cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def only_run(folder: Path) -> Path:
    """The one run that a folder has."""
    (found,) = (folder / "runs").iterdir()
    return found


def wait_for_line(process: subprocess.Popen[str], *parts: str) -> list[str]:
    """Read the process's stderr up to the first line with all ``parts``; fails when it ends before."""
    assert process.stderr is not None
    seen: list[str] = []
    for line in process.stderr:
        seen.append(line)
        if all(part in line for part in parts):
            return seen
    raise AssertionError(f"the command ended without a line with {parts}: {''.join(seen)}")


def tiny(*more: str) -> Sequence[str]:
    """The tiny overrides and some more."""
    return (*TINY, *more)
