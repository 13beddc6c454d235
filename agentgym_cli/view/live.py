"""How far the journal of a run is ahead of the store, by sizes alone: nothing is read, and no link is followed."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path


def bytes_ahead(runs_dir: Path, run: str, loaded: Mapping[int, int]) -> int | None:
    """Bytes of a run's journal that the store does not hold yet; None where the folder of runs has no such journal.

    Args:
        run: its name, foreign text; one that is no plain name has no folder.
        loaded: bytes by segment that the store holds.
    """
    if run in ("", ".", "..") or "/" in run or "\\" in run or "\0" in run:
        return None
    folder = runs_dir / run / "journal"
    try:
        if not all(stat.S_ISDIR(each.lstat().st_mode) for each in (folder.parent, folder)):
            return None
        sizes = {int(path.stem): path.lstat() for path in folder.glob("*.jsonl") if path.stem.isdecimal()}
    except OSError:
        return None
    plain = {segment: known.st_size for segment, known in sizes.items() if stat.S_ISREG(known.st_mode)}
    return sum(max(0, size - loaded.get(segment, 0)) for segment, size in plain.items()) if plain else None
