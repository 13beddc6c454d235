"""What a launch on verl needs of the machine, looked at before Ray starts. Each failure names the field and what to do."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.errors import LockError, PolicyError, TrainerError
from agentgym_cli.recipe.data import try_find
from agentgym_cli.recipe.lock import installed_version
from agentgym_cli.recipe.profiles import GpuSurvey, survey_gpus
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.devices import shape_of
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.verl_place import rehearses

SHARED_MEMORY = Path("/dev/shm")
NEEDED_SHARED_MIB = {True: 256, False: 4096}
"""For weights on their way to vLLM and for Ray's objects: in a rehearsal, and with real weights."""
BYTES_PER_PARAMETER = 12
"""Of one checkpoint: weights and the two moments of AdamW, each in float32."""
KEPT = 2
"""Checkpoints that there has to be room for: the last one and the one that is being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is."""

    gpus: GpuSurvey
    flash_attention: bool
    shared_mib: float | None
    """None where the system has no such place."""
    disk_bytes: int
    """Free where the run's folder is."""


def look(folder: Path, *, rehearsal: bool) -> Machine:
    """This machine. GPUs are not asked for in a rehearsal."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    shared = shutil.disk_usage(SHARED_MEMORY).total / 1024**2 if SHARED_MEMORY.is_dir() else None
    return Machine(
        gpus=GpuSurvey(memory_mib=(), why_none="a rehearsal") if rehearsal else survey_gpus(None),
        flash_attention=installed_version("flash-attn") is not None,
        shared_mib=shared,
        disk_bytes=shutil.disk_usage(place).free,
    )


def require_launchable(prepared: Prepared) -> None:
    """``require_machine`` for a run on this machine. Raises RecipeError also for a model that nobody knows."""
    run, beside = prepared.run, prepared.frozen.beside
    shape, _ = shape_of(run, beside)
    model = try_find(run.policy.own_model.path, beside=beside)
    require_machine(run, look(prepared.folder.absolute(), rehearsal=rehearses(run)), shape=shape, model=model)


def require_machine(run: Run, machine: Machine, *, shape: ModelShape, model: Path | None) -> None:
    """Refuse a launch that this machine cannot carry.

    Args:
        shape: the network that is trained; not asked for in a rehearsal.
        model: folder of the model's files, None where they are not on this machine.

    Raises:
        TrainerError: GPUs, shared memory or disk.
        LockError: no flash attention.
        PolicyError: no model.
    """
    cluster = run.cluster
    assert cluster is not None, "engine verl has a section cluster"
    rehearsal = cluster.gpus_per_node == 0
    _require_shared(machine, rehearsal=rehearsal)
    if rehearsal:
        return
    if cluster.ray_address is None:
        _require_gpus(cluster, machine.gpus)
    if not machine.flash_attention and not any("attn_implementation" in override for override in cluster.verl):
        raise LockError(
            "engine verl: expected flash-attn to be installed, got none",
            "install it beside the stack (docs/gpu.md), or verl.actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        )
    if model is None:
        name = run.policy.own_model.path
        raise PolicyError(
            f"policy.model.path: expected the files of {name} on this machine, got none: a launch asks no hub",
            f"hf download {name} --local-dir DIR, then policy.model.path=DIR",
        )
    _require_disk(machine, shape)


def _require_gpus(cluster: ClusterSpec, found: GpuSurvey) -> None:
    least = cluster.gpu_memory_gib * 1024 * 0.95
    usable = [memory for memory in found.memory_mib if memory >= least]
    if len(usable) < cluster.gpus_per_node:
        why = f" ({found.why_none})" if found.why_none else ""
        of = f" of {cluster.gpu_memory_gib} GiB" if cluster.gpu_memory_gib else ""
        raise TrainerError(
            f"cluster.gpus_per_node: expected {cluster.gpus_per_node} GPUs{of} here, got {len(usable)}{why}",
            "cluster.ray_address=ADDRESS names a cluster that has them; profile=rehearsal tries the launch on a CPU",
        )


def _require_shared(machine: Machine, *, rehearsal: bool) -> None:
    needed = NEEDED_SHARED_MIB[rehearsal]
    if machine.shared_mib is not None and machine.shared_mib < needed:
        raise TrainerError(
            f"{SHARED_MEMORY}: expected {needed} MiB of shared memory, got {machine.shared_mib:.0f} MiB",
            "docker run --shm-size=16g, or mount it larger",
        )


def _require_disk(machine: Machine, shape: ModelShape) -> None:
    needed = KEPT * BYTES_PER_PARAMETER * shape.parameters
    if machine.disk_bytes < needed:
        gib = 1024**3
        raise TrainerError(
            f"store.runs_dir: expected {needed / gib:.0f} GiB free for {KEPT} checkpoints, got {machine.disk_bytes / gib:.0f} GiB",
            "--runs-dir names another disk; verl.trainer.max_actor_ckpt_to_keep=1 keeps only the last",
        )


def require_same_ranks(cluster: ClusterSpec, ranks: int) -> None:
    """verl's shards are read by as many processes as wrote them. Raises TrainerError."""
    if cluster.gpus != ranks:
        raise TrainerError(
            f"cluster: expected the {ranks} GPUs that wrote the checkpoint, got {cluster.gpus}",
            "resume with as many, or agentgym export RUN and start a new run from the exported model",
        )
