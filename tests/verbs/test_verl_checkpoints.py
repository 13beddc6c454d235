"""A checkpoint of verl's counts once our file lies beside it, and only in its own run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.errors import PolicyError, TrainerError
from agentgym_cli.verbs.verl_checkpoints import forget_verl_checkpoints, last_verl_checkpoint, verl_checkpoint


def checkpoint(folder: Path, number: int, **document: object) -> Path:
    place = folder / "checkpoints" / f"global_step_{number}"
    (place / "actor").mkdir(parents=True)
    if document:
        (place / "agentgym.json").write_text(json.dumps(document))
    return place


def test_the_highest_complete_one_is_taken(tmp_path: Path) -> None:
    checkpoint(tmp_path, 2, digest="d", step=2, ranks=1)
    checkpoint(tmp_path, 10, digest="d", step=10, ranks=1)
    # Killed between verl's files and ours: this one does not count.
    checkpoint(tmp_path, 11)
    found = last_verl_checkpoint(tmp_path, digest="d")
    assert found is not None and (found.step, found.ranks, found.folder.name) == (10, 1, "global_step_10")


def test_one_without_shards_does_not_count(tmp_path: Path) -> None:
    checkpoint(tmp_path, 2, digest="d", step=2, ranks=1)
    (checkpoint(tmp_path, 3, digest="d", step=3, ranks=1) / "actor").rmdir()
    found = last_verl_checkpoint(tmp_path, digest="d")
    assert found is not None and found.step == 2


def test_there_may_be_none(tmp_path: Path) -> None:
    assert last_verl_checkpoint(tmp_path, digest="d") is None


@pytest.mark.parametrize("document", [{"digest": "other", "step": 3, "ranks": 1}, {"digest": "d", "step": 4, "ranks": 1}])
def test_one_of_another_run_or_step_is_refused(tmp_path: Path, document: dict[str, object]) -> None:
    checkpoint(tmp_path, 3, **document)
    with pytest.raises(TrainerError, match="expected a checkpoint of this run at step 3"):
        last_verl_checkpoint(tmp_path, digest="d")


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"digest": "d", "step": 3}', '{"digest": "d", "step": 3, "ranks": "x"}'])
def test_a_broken_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    (checkpoint(tmp_path, 3) / "agentgym.json").write_text(text)
    with pytest.raises(TrainerError, match=r"agentgym\.json: expected .*digest.* of a checkpoint") as refused:
        last_verl_checkpoint(tmp_path, digest="d")
    assert refused.value.hint is not None and "go on from the one before" in refused.value.hint


def test_a_step_is_asked_for_by_its_number(tmp_path: Path) -> None:
    for step in (2, 10):
        checkpoint(tmp_path, step, digest="d", step=step, ranks=1)
    assert verl_checkpoint(tmp_path, digest="d", step=2).step == 2
    assert verl_checkpoint(tmp_path, digest="d", step=None).step == 10
    with pytest.raises(PolicyError, match="expected a complete checkpoint of step 3, got one of steps 2, 10"):
        verl_checkpoint(tmp_path, digest="d", step=3)


def test_the_newest_are_kept_whole_and_older_ones_leave_nothing(tmp_path: Path) -> None:
    for step in (2, 10, 9):
        checkpoint(tmp_path, step, digest="d", step=step, ranks=1)
    # One that was cut short is nobody's to count.
    checkpoint(tmp_path, 1)
    forget_verl_checkpoints(tmp_path, digest="d", keep=2)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["global_step_1", "global_step_10", "global_step_9"]
    forget_verl_checkpoints(tmp_path, digest="d", keep=2)
    assert last_verl_checkpoint(tmp_path, digest="d") == verl_checkpoint(tmp_path, digest="d", step=10)


def test_shards_of_one_network_may_stand_in_the_checkpoints_own_folder(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, 2, digest="d", step=2, ranks=1, shards=".")
    (place / "actor").rmdir()
    assert verl_checkpoint(tmp_path, digest="d", step=2).shards == place
    checkpoint(tmp_path, 3, digest="d", step=3, ranks=1)
    assert verl_checkpoint(tmp_path, digest="d", step=3).shards.name == "actor"
