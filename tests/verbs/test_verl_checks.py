"""What a machine lacks for a launch is said before Ray starts, field by field, with the exit code of whose fault it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.capacity.known_models import find_known
from agentgym_cli.errors import AgentgymError, LockError, PolicyError, TrainerError
from agentgym_cli.recipe.profiles import GpuSurvey
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.verl_checks import Machine, desk_host, look, require_machine, require_same_ranks

GIB = 1024**3
EIGHT = Machine(
    gpus=GpuSurvey(memory_mib=(81559,) * 8), flash_attention=True, shared_mib=65536.0, disk_bytes=1200 * GIB, memory_bytes=128 * GIB, cpus=35
)
KNOWN = find_known("Qwen/Qwen2.5-7B-Instruct")
assert KNOWN is not None
MODEL = Path("/models/qwen")


def run_of(*overrides: str, profile: str = "gpu") -> Run:
    return resolve("textcraft_grpo.yaml", [f"profile={profile}", *overrides], installed=lambda _: "1").run


def test_eight_gpus_of_80_gib_carry_the_recipe() -> None:
    require_machine(run_of(), EIGHT, shape=KNOWN.shape, model=MODEL)


@pytest.mark.parametrize(
    ("machine", "kind", "message"),
    [
        (
            replace(EIGHT, gpus=GpuSurvey(memory_mib=(), why_none="nvidia-smi not found")),
            TrainerError,
            r"expected 8 GPUs of 80 GiB here, got 0 \(nvidia-smi not found\)",
        ),
        (replace(EIGHT, gpus=GpuSurvey(memory_mib=(81559,) * 7 + (24576,))), TrainerError, "expected 8 GPUs of 80 GiB here, got 7"),
        (replace(EIGHT, flash_attention=False), LockError, "expected flash-attn to be installed"),
        # A reference of 7,615,616,512 numbers in float32.
        (replace(EIGHT, memory_bytes=27 * GIB), TrainerError, r"expected 28 GiB of memory beside the GPUs for it and a reference, got 27 GiB"),
        # Three beside each GPU, and eleven more.
        (replace(EIGHT, cpus=34), TrainerError, "expected 35 CPUs beside 8 GPUs, as Ray counts them, got 34"),
        (replace(EIGHT, shared_mib=64.0), TrainerError, "expected 4096 MiB of shared memory, got 64 MiB"),
        # 7,615,616,512 parameters of 12 bytes are 85.1 GiB: the two that are kept, and the one being written.
        (replace(EIGHT, disk_bytes=200 * GIB), TrainerError, "expected 255 GiB free for 3 checkpoints, got 200 GiB"),
    ],
)
def test_promise_09_what_is_missing_is_named(machine: Machine, kind: type[AgentgymError], message: str) -> None:
    with pytest.raises(kind, match=message) as refused:
        require_machine(run_of(), machine, shape=KNOWN.shape, model=MODEL)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("overrides", "done", "count"),
    [
        # The one before is removed once the next is complete.
        ([], 0, 3),
        (["train.keep_checkpoints=1"], 0, 2),
        (["train.keep_checkpoints=null"], 0, 14),
        (["train.steps=50", "train.keep_checkpoints=5"], 0, 2),
        # Two of four lie there already, and with them the place of one.
        (["train.keep_checkpoints=4"], 50, 3),
        (["train.keep_checkpoints=4"], 200, 1),
        # Steps 325 and 330 are left; those before lie there already.
        (["train.keep_checkpoints=null"], 300, 2),
        # A critic beside each policy: four networks in two checkpoints.
        (["train.algorithm={kind: ppo, critic_learning_rate: 1e-5}", "train.keep_checkpoints=1"], 0, 4),
    ],
)
def test_there_has_to_be_room_for_the_checkpoints_that_are_still_to_come(overrides: list[str], done: int, count: int) -> None:
    needed = count * 12 * 7_615_616_512
    require_machine(run_of(*overrides), replace(EIGHT, disk_bytes=needed), shape=KNOWN.shape, model=MODEL, done=done)
    with pytest.raises(TrainerError, match=r"store\.runs_dir: expected"):
        require_machine(run_of(*overrides), replace(EIGHT, disk_bytes=needed - 1), shape=KNOWN.shape, model=MODEL, done=done)


@pytest.mark.parametrize(("algorithm", "critic"), [("{kind: grpo, group_size: 8}", 0), ("{kind: ppo, critic_learning_rate: 1e-5}", 12)])
def test_what_is_frozen_below_adapters_has_no_moments_in_a_checkpoint(algorithm: str, critic: int) -> None:
    # 28 layers of rank 16: a query from 3584 to 3584 numbers and a value from 3584 to 512.
    adapters = 28 * 16 * (3584 + 3584 + 3584 + 512)
    needed = 3 * ((4 + critic) * 7_615_616_512 + 12 * adapters)
    asked = run_of(f"train.algorithm={algorithm}", "train.lora={rank: 16, alpha: 32}")
    require_machine(asked, replace(EIGHT, disk_bytes=needed), shape=KNOWN.shape, model=MODEL)
    with pytest.raises(TrainerError, match=r"store\.runs_dir: expected"):
        require_machine(asked, replace(EIGHT, disk_bytes=needed - 1), shape=KNOWN.shape, model=MODEL)


def test_several_machines_are_a_cluster_that_runs_already() -> None:
    with pytest.raises(TrainerError, match=r"cluster\.ray_address: expected the Ray cluster of 2 machines, got none"):
        require_machine(run_of("cluster.nodes=2"), EIGHT, shape=KNOWN.shape, model=MODEL)


def test_workers_reach_the_launcher_on_the_way_to_their_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert desk_host(ClusterSpec(gpus_per_node=8)) == "127.0.0.1"
    for address in ("127.0.0.1:6379", "ray://127.0.0.1:10001"):
        assert desk_host(ClusterSpec(gpus_per_node=8, ray_address=address)) == "127.0.0.1"
    assert desk_host(ClusterSpec(gpus_per_node=8, ray_address="auto")) == "127.0.0.1"
    with pytest.raises(TrainerError, match="got 'auto'"):
        desk_host(ClusterSpec(nodes=2, gpus_per_node=8, ray_address="auto"))
    for address in ("127.0.0.1", "127.0.0.1:99999"):
        with pytest.raises(TrainerError, match="expected HOST:PORT of a Ray cluster"):
            desk_host(ClusterSpec(gpus_per_node=8, ray_address=address))


@pytest.mark.parametrize(("offload", "said"), [("none", False), ("streamed", True)])
def test_what_is_not_offloaded_is_not_advised_to_be_kept(offload: str, said: bool) -> None:
    with pytest.raises(TrainerError, match=r"expected .* GiB of memory beside the GPUs") as refused:
        require_machine(run_of(f"cluster.offload={offload}"), replace(EIGHT, memory_bytes=GIB), shape=KNOWN.shape, model=MODEL)
    assert ("cluster.offload=none" in (refused.value.hint or "")) == said


def test_ray_may_count_more_cpus_than_there_are() -> None:
    require_machine(run_of("verl.ray_kwargs.ray_init.num_cpus=35"), replace(EIGHT, cpus=8), shape=KNOWN.shape, model=MODEL)
    with pytest.raises(TrainerError, match="got 34"):
        require_machine(run_of("verl.ray_kwargs.ray_init.num_cpus=34"), EIGHT, shape=KNOWN.shape, model=MODEL)


def test_demonstrations_are_learned_without_ray_and_its_cpus() -> None:
    sft = "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 64}]}"
    run = run_of(sft, "train.updates_per_step=1", "train.learning_rate=1e-5")
    require_machine(run, replace(EIGHT, cpus=2), shape=KNOWN.shape, model=MODEL)


def test_gpus_that_a_launch_would_not_see_do_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nfor each in 0 1 2 3; do echo GPU-$each, 81559, H100; done\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert look(tmp_path, rehearsal=False).gpus.memory_mib == (81559, 81559)


def test_a_critic_has_no_other_attention() -> None:
    ppo = "train.algorithm={kind: ppo, critic_learning_rate: 1e-5}"
    other = run_of(ppo, "verl.actor_rollout_ref.model.override_config.attn_implementation=sdpa", "train.keep_checkpoints=1")
    with pytest.raises(LockError, match="flash-attn to be installed, which verl loads a critic with") as refused:
        require_machine(other, replace(EIGHT, flash_attention=False), shape=KNOWN.shape, model=MODEL)
    assert "sdpa" not in (refused.value.hint or "")


def test_a_model_that_is_on_no_disk_is_no_surprise_for_a_worker() -> None:
    with pytest.raises(PolicyError, match=r"expected the files of Qwen/Qwen2\.5-7B-Instruct on this machine"):
        require_machine(run_of(), EIGHT, shape=KNOWN.shape, model=None)


def test_gpus_of_a_cluster_elsewhere_are_not_looked_for_here() -> None:
    nothing = replace(EIGHT, gpus=GpuSurvey(memory_mib=(), why_none="none"))
    require_machine(run_of("cluster.ray_address=10.0.0.1:6379"), nothing, shape=KNOWN.shape, model=MODEL)


def test_attention_may_be_another_one() -> None:
    other = run_of("verl.actor_rollout_ref.model.override_config.attn_implementation=sdpa")
    require_machine(other, replace(EIGHT, flash_attention=False), shape=KNOWN.shape, model=MODEL)


def test_a_rehearsal_needs_shared_memory_alone() -> None:
    bare = Machine(gpus=GpuSurvey(memory_mib=(), why_none="none"), flash_attention=False, shared_mib=300.0, disk_bytes=0, memory_bytes=0, cpus=1)
    require_machine(run_of(profile="rehearsal"), bare, shape=KNOWN.shape, model=None)
    with pytest.raises(TrainerError, match="expected 256 MiB of shared memory, got 64 MiB"):
        require_machine(run_of(profile="rehearsal"), replace(bare, shared_mib=64.0), shape=KNOWN.shape, model=None)


def test_a_machine_is_looked_at_where_the_run_will_be(tmp_path: Path) -> None:
    found = look(tmp_path / "runs" / "not-yet", rehearsal=True)
    assert found.disk_bytes > 0 and found.gpus.memory_mib == ()


def test_shards_are_read_by_as_many_as_wrote_them() -> None:
    require_same_ranks(ClusterSpec(gpus_per_node=4, nodes=2), 8)
    with pytest.raises(TrainerError, match="expected the 8 GPUs that wrote the checkpoint, got 4") as refused:
        require_same_ranks(ClusterSpec(gpus_per_node=4), 8)
    assert refused.value.hint is not None and "agentgym export" in refused.value.hint


def test_the_way_without_flash_attention_is_named_in_the_words_of_the_trainer() -> None:
    sft = run_of("train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 4}]}", "train.updates_per_step=1")
    with pytest.raises(LockError) as refused:
        require_machine(sft, replace(EIGHT, flash_attention=False), shape=KNOWN.shape, model=MODEL)
    assert refused.value.hint is not None and "verl.model.override_config.attn_implementation=sdpa" in refused.value.hint


def test_a_world_that_one_machine_serves_is_not_for_several() -> None:
    several = ("cluster.nodes=2", "cluster.ray_address=10.0.0.1:6379", "train.tasks_per_step=64")
    with pytest.raises(TrainerError, match=r"env\.urls: expected addresses that all 2 machines reach, got a world that is served on this one"):
        require_machine(run_of(*several), EIGHT, shape=KNOWN.shape, model=MODEL)
    require_machine(run_of(*several, "env.urls=[http://10.0.0.1:36001]"), EIGHT, shape=KNOWN.shape, model=MODEL)


def test_a_job_reaches_its_launcher_by_the_address_that_ray_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    assert desk_host(ClusterSpec(nodes=2, gpus_per_node=8, ray_address="auto")) == "127.0.0.1"
    # A Ray of the run's own has nothing to do with it.
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    assert desk_host(ClusterSpec(gpus_per_node=8)) == "127.0.0.1"
    with pytest.raises(TrainerError, match="expected HOST:PORT of a Ray cluster"):
        desk_host(ClusterSpec(gpus_per_node=8, ray_address="auto"))


def test_what_is_offloaded_needs_the_machines_memory_or_a_recipe_that_tries() -> None:
    # 16 bytes of 7,615,616,512 numbers and a reference's 4 are 141.9 GiB
    two = replace(EIGHT, gpus=GpuSurvey(memory_mib=(81559,) * 2))
    with pytest.raises(TrainerError, match="expected 142 GiB of memory beside the GPUs for it and a reference, got 128 GiB"):
        require_machine(run_of(profile="gpu2"), two, shape=KNOWN.shape, model=MODEL)
    require_machine(run_of("engine.memory_check=warn", profile="gpu2"), two, shape=KNOWN.shape, model=MODEL)
    require_machine(run_of(profile="gpu2"), replace(two, memory_bytes=142 * GIB), shape=KNOWN.shape, model=MODEL)
