"""GPUs that somebody computes on are refused, whoever it is; those that a launch does not take are not looked at."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agentgym_cli.errors import TrainerError
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.verbs.gpu_use import claimed_gpus, read_cards, refuse_used

# Two idle ones, one with 60 GiB of a run on it, one with a desktop.
SAID = "GPU-aa, 4, 81559\nGPU-bb, 4, 81559\nGPU-cc, 61440, 81559\nGPU-dd, 700, 81559\n"


@pytest.mark.parametrize(("count", "visible"), [(2, None), (3, "0,1,3"), (1, "GPU-dd"), (2, "GPU-b,GPU-a,GPU-c"), (2, "3,1,2")])
def test_gpus_that_nobody_uses_are_taken(count: int, visible: str | None) -> None:
    refuse_used(count, read_cards(SAID, visible=visible)[:count])


@pytest.mark.parametrize(("count", "visible"), [(3, None), (4, None), (1, "2"), (2, "0,2"), (1, "GPU-cc")])
def test_one_that_is_taken_is_named_with_how_much(count: int, visible: str | None) -> None:
    with pytest.raises(TrainerError) as refused:
        refuse_used(count, read_cards(SAID, visible=visible)[:count])
    assert refused.value.message == f"cluster.gpus_per_node: expected {count} GPUs that nobody uses, got GPU 2 has 60 of 80 GiB taken"


@pytest.mark.parametrize("said", ["", "No devices were found\n", "GPU-aa, [N/A], [N/A]\n"])
def test_what_is_no_number_is_no_reason(said: str) -> None:
    refuse_used(1, read_cards(said, visible=None)[:1])


def two_cards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with two idle GPUs."""
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU-aa, 4, 81559'\necho 'GPU-bb, 4, 81559'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("agentgym_cli.verbs.gpu_use.gettempdir", lambda: str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_two_launches_that_start_together_share_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_cards(tmp_path, monkeypatch)
    one, both = ClusterSpec(gpus_per_node=1), ClusterSpec(gpus_per_node=2)
    with claimed_gpus(one):
        with (
            pytest.raises(TrainerError, match="expected 2 GPUs that nobody uses, got GPU 0 taken by another launch that is starting"),
            claimed_gpus(both),
        ):
            raise AssertionError
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        with claimed_gpus(one):
            pass
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    with claimed_gpus(both):
        pass


def test_a_rehearsal_and_a_launch_on_a_cluster_take_no_gpu_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_cards(tmp_path, monkeypatch)
    elsewhere = ClusterSpec(gpus_per_node=2, ray_address="10.0.0.1:6379")
    with claimed_gpus(ClusterSpec(gpus_per_node=2)), claimed_gpus(ClusterSpec(gpus_per_node=0)), claimed_gpus(elsewhere):
        pass
