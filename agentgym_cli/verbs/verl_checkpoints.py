"""Where the checkpoints of a run on verl are: complete where our own file lies beside verl's, which is written last."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import PolicyError, TrainerError
from agentgym_cli.learn.verl.setup import DIGEST_FILE
from agentgym_cli.recipe.wording import listed

_NAME = re.compile(r"global_step_(\d+)")
SHARDS = "actor"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlCheckpoint:
    """A complete checkpoint of verl's."""

    folder: Path
    step: int
    ranks: int
    """Training processes that wrote it; as many have to read it."""
    shards: Path
    """Folder of the weights: within ``folder`` where a critic may stand beside them, else ``folder`` itself."""


def last_verl_checkpoint(folder: Path, *, digest: str) -> VerlCheckpoint | None:
    """The complete checkpoint of the highest step, None where there is none. Raises TrainerError for one of another run."""
    return max(_complete(folder, digest), key=lambda each: each.step, default=None)


def verl_checkpoint(folder: Path, *, digest: str, step: int | None) -> VerlCheckpoint:
    """The complete checkpoint of a step, the last one where it is None. Raises PolicyError when there is none."""
    found = {each.step: each for each in _complete(folder, digest)}
    wanted = max(found, default=None) if step is None else step
    if wanted is None or wanted not in found:
        there = f"one of steps {listed(map(str, sorted(found)))}" if found else "none"
        raise PolicyError(f"{folder}: expected a complete checkpoint{'' if step is None else f' of step {step}'}, got {there}", "agentgym report RUN")
    return found[wanted]


def forget_verl_checkpoints(folder: Path, *, digest: str, keep: int) -> None:
    """Remove complete checkpoints of this run but the ``keep`` newest; verl itself forgets those that it wrote before a resume."""
    for each in sorted(_complete(folder, digest), key=lambda each: each.step)[:-keep]:
        # First what makes it complete: one that is half removed is never gone on from.
        (each.folder / DIGEST_FILE).unlink()
        shutil.rmtree(each.folder, ignore_errors=True)


def _complete(folder: Path, digest: str) -> list[VerlCheckpoint]:
    every = [_read(path, int(name[1]), digest) for path in folder.glob("checkpoints/*") if (name := _NAME.fullmatch(path.name))]
    return [each for each in every if each is not None]


def _read(folder: Path, step: int, digest: str) -> VerlCheckpoint | None:
    place = folder / DIGEST_FILE
    try:
        document = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise TrainerError(f"{place}: expected the digest of a checkpoint, got: {err}", f"remove {folder} to go on from the one before") from err
    if not isinstance(document, dict) or type(document.get("ranks")) is not int or not isinstance(document.get("shards", SHARDS), str):
        raise TrainerError(
            f"{place}: expected digest, step, ranks and shards of a checkpoint, got {str(document)[:200]}",
            f"remove {folder} to go on from the one before",
        )
    if document.get("digest") != digest or document.get("step") != step:
        raise TrainerError(f"{place}: expected a checkpoint of this run at step {step}, got another's", "resume the run in its own folder")
    shards = folder / document.get("shards", SHARDS)
    if not shards.is_dir():  # what verl.trainer.max_actor_ckpt_to_keep removes: the shards, not their folder
        return None
    return VerlCheckpoint(folder=folder, step=step, ranks=document["ranks"], shards=shards)
