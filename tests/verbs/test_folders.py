"""Where checkpoints lie, and which of them are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.verbs.folders import checkpoint_folder, forget_checkpoints


@pytest.mark.parametrize(
    ("keep", "left"),
    [(None, [0, 25, 50, 75, 1000000]), (1, [0, 1000000]), (2, [0, 75, 1000000]), (9, [0, 25, 50, 75, 1000000])],
)
def test_step_0_and_the_newest_are_kept(tmp_path: Path, keep: int | None, left: list[int]) -> None:
    for step in (0, 25, 50, 75, 1_000_000):
        folder = checkpoint_folder(tmp_path, step)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(b"x")
    forget_checkpoints(tmp_path, keep=keep)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [f"step-{step:06d}" for step in left]
