"""What a process may take of its machine's memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentgym_cli.verbs.machine import limits, machine_memory

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def groups(folder: Path, said: str, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        path = folder / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "mine").write_text(said)
    return folder / "cgroup", folder / "mine"


@pytest.mark.parametrize(
    ("said", "files", "expected"),
    [
        ("0::/\n", {"memory.max": "1000000\n"}, 1_000_000),
        ("0::/a/b\n", {"memory.max": "max\n", "a/memory.max": "5000\n", "a/b/memory.max": "9000\n"}, 5000),
        ("4:memory:/docker/x\n", {"memory/docker/x/memory.limit_in_bytes": "7000\n"}, 7000),
        ("0::/../../outside\n", {"memory.max": "3000\n"}, 3000),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, PHYSICAL),
        ("0::/\n", {"memory.max": "max\n"}, PHYSICAL),
        ("", {}, PHYSICAL),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, said: str, files: dict[str, str], expected: int) -> None:
    control, mine = groups(tmp_path, said, files)
    assert machine_memory(control=control, mine=mine) == expected


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert limits(tmp_path / "none", tmp_path / "neither") == ()
