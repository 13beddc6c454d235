"""How much memory a process of this machine may take: what it has, or what its container is allowed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_CONTROL = Path("/sys/fs/cgroup")
_MINE = Path("/proc/self/cgroup")
_FILES = ("memory.max", "memory.limit_in_bytes")
"""Of version 2 of control groups, and of version 1, which has them in a folder ``memory``. The word ``max`` is no limit."""


def machine_memory(*, control: Path = _CONTROL, mine: Path = _MINE) -> int:
    """Bytes: the smallest of the machine's memory and the limits of this process's control group and of those around it.

    Args:
        control: where control groups are.
        mine: the file that says which is this process's.
    """
    return min((_physical(), *limits(control, mine)))


def limits(control: Path, mine: Path) -> tuple[int, ...]:
    """Every limit in bytes that is set on this process; none where there are no control groups."""
    return tuple(found for folder in _folders(control, mine) for name in _FILES if (found := _read(folder / name)) is not None)


def _folders(control: Path, mine: Path) -> Iterator[Path]:
    """The process's control group and those around it. In a container the file may name a path that only the outside has."""
    try:
        lines = mine.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    paths = {path.strip("/") for _, _, rest in (line.partition(":") for line in lines) for _, _, path in [rest.partition(":")]}
    for root in (control, control / "memory"):
        for path in sorted({"", *paths}):
            inside = [part for part in path.split("/") if part not in ("", ".", "..")]
            yield from (root.joinpath(*inside[:length]) for length in range(len(inside) + 1))


def _read(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _physical() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
