"""What a person asked a verb to do, before any file was read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """Which policy an evaluation runs."""

    kind: str | None = None
    """``oracle``, ``random``, ``scripted`` or ``checkpoint``; None is a checkpoint where one is named, else whom the recipe names."""
    checkpoint: Path | None = None
    """Checkpoint folder, or the folder of a run (its last checkpoint)."""
    script: Path | None = None
    """JSON lines of {task, actions} for ``scripted``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The words of one ``train`` or ``eval`` command."""

    target: str
    """Recipe, frozen run, or folder of a run."""
    overrides: list[str]
    resume: bool = False
    runs_dir: Path | None = None
    database: Path | None = None
    allow_degraded: bool = False
    allow_drift: bool = False
    """Go on although files, or the interpreter, are not what the run was frozen with; what is let through is recorded."""
    policy: PolicyChoice | None = None
    """None for ``train``."""
