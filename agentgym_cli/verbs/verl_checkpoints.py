"""Where the checkpoints of a run on verl are: complete where our own file lies beside verl's, which is written last."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import TrainerError

_NAME = re.compile(r"global_step_(\d+)")
DIGEST_FILE = "agentgym.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlCheckpoint:
    """A complete checkpoint of verl's."""

    folder: Path
    step: int
    ranks: int
    """Training processes that wrote it; as many have to read it."""


def last_verl_checkpoint(folder: Path, *, digest: str) -> VerlCheckpoint | None:
    """The complete checkpoint of the highest step, None where there is none. Raises TrainerError for one of another run."""
    found = [_read(path, int(name[1]), digest) for path in folder.glob("checkpoints/*") if (name := _NAME.fullmatch(path.name))]
    return max((each for each in found if each is not None), key=lambda each: each.step, default=None)


def _read(folder: Path, step: int, digest: str) -> VerlCheckpoint | None:
    place = folder / DIGEST_FILE
    try:
        document = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as err:
        raise TrainerError(f"{place}: expected the digest of a checkpoint, got: {err}", f"remove {folder} to go on from the one before") from err
    if document.get("digest") != digest or document.get("step") != step:
        raise TrainerError(f"{place}: expected a checkpoint of this run at step {step}, got another's", "resume the run in its own folder")
    return VerlCheckpoint(folder=folder, step=step, ranks=int(document["ranks"]))
