"""The folder of a run: made so that two starts never share one, its frozen run in it, and in that what its servers say they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress


def claim_folder(prepared: Prepared, progress: Progress) -> Prepared:
    """Make the folder of a new run, under the next free name when another start was quicker, and put its frozen run there.

    Returns:
        ``prepared`` with the folder that it got; as it was, for a resumed run.

    Raises:
        StoreError: the folder cannot be made.
    """
    claimed = prepared
    if not prepared.resumed:
        folder = _made(prepared.folder)
        claimed = replace(prepared, folder=folder, name=folder.name, frozen=replace(prepared.frozen, observed={}))
        _write(claimed)
    progress.note("run", str(claimed.folder))
    return claimed


def keep_observed(prepared: Prepared, observed: Mapping[str, str]) -> None:
    """Write what the environment's servers said into the run's frozen run; its digest stays. Raises StoreError."""
    _write(replace(prepared, frozen=replace(prepared.frozen, observed=observed)))


def add_observed(prepared: Prepared, observed: Mapping[str, str]) -> None:
    """The same for what was said later, beside what is there. Raises StoreError."""
    keep_observed(prepared, {**read_frozen(prepared.folder / FROZEN_FILE).observed, **observed})


def _made(folder: Path) -> Path:
    """Whoever makes a folder has it: looking first would let two starts of one second take the same."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            free = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
            try:
                free.mkdir()
            except FileExistsError:
                continue
            break
    except OSError as err:
        raise _cannot("to make the run's folder", folder, err) from err
    return free


def _write(prepared: Prepared) -> None:
    try:
        prepared.frozen.write(prepared.folder / FROZEN_FILE)
    except OSError as err:
        raise _cannot(f"to write {FROZEN_FILE}", prepared.folder, err) from err


def _cannot(what: str, folder: Path, err: OSError) -> StoreError:
    return StoreError(f"{folder}: expected {what}, got: {err.strerror or err}", "choose another place: --runs-dir DIR")
