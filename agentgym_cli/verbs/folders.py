"""Where the checkpoints of a run are, by name alone: a folder that has its final name is complete."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import PolicyError

CHECKPOINTS = "checkpoints"
FROZEN_FILE = "frozen.json"
"""The frozen run inside a run's folder."""
WEIGHTS_FILE = "model.safetensors"
"""The weights inside a checkpoint's folder."""
_NAME = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    step: int
    """0 is the end of the warm start."""


def checkpoint_folder(run_folder: Path, step: int) -> Path:
    """Where the checkpoint of a step belongs."""
    return run_folder / CHECKPOINTS / f"step-{step:06d}"


def last_checkpoint(run_folder: Path) -> Checkpoint | None:
    """The complete checkpoint of the highest step, None when there is none."""
    found = [Checkpoint(folder=path, step=int(name[1])) for path in _folders(run_folder) if (name := _NAME.fullmatch(path.name))]
    return max(found, key=lambda checkpoint: checkpoint.step, default=None)


def forget_checkpoints(run_folder: Path, *, keep: int | None) -> None:
    """Remove checkpoints but step 0's, which a resume reads too, and the ``keep`` newest; None keeps all."""
    every = sorted((int(name[1]), path) for path in _folders(run_folder) if (name := _NAME.fullmatch(path.name)))
    later = [path for step, path in every if step > 0]
    for path in later[: len(later) - keep] if keep is not None else ():
        # Under another name first: one that is half removed is never gone on from.
        aside = path.rename(path.with_name(f".{path.name}"))
        shutil.rmtree(aside, ignore_errors=True)


def find_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a folder, or the last one of a run's folder. Raises PolicyError when there is none."""
    name = _NAME.fullmatch(path.name)
    if name and path.is_dir():
        return Checkpoint(folder=path, step=int(name[1]))
    found = last_checkpoint(path)
    if found is None:
        raise PolicyError(f"{path}: expected a checkpoint's folder (step-NNNNNN) or the folder of a run that has one", "ls runs/*/checkpoints")
    return found


def short(path: Path) -> Path:
    """A place as somebody reads it: from the working folder, where it lies in there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _folders(run_folder: Path) -> list[Path]:
    folder = run_folder / CHECKPOINTS
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
