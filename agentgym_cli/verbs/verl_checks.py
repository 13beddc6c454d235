"""What a launch on verl needs of the machine, looked at before Ray starts. Each failure names the field and what to do."""

from __future__ import annotations

import math
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.training import training_memory
from agentgym_cli.errors import LockError, PolicyError, TrainerError
from agentgym_cli.recipe.data import try_find
from agentgym_cli.recipe.lock import installed_version
from agentgym_cli.recipe.profiles import GpuSurvey
from agentgym_cli.recipe.resolve import visible_gpus, whole_environment
from agentgym_cli.recipe.schema.algorithms import PpoSpec, SftSpec
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.devices import devices_of, shape_of
from agentgym_cli.verbs.machine import machine_memory
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.ray_checks import CPUS_BESIDE, CPUS_PER_GPU
from agentgym_cli.verbs.verl_checkpoints import last_verl_checkpoint
from agentgym_cli.verbs.verl_place import FOLDER, rehearses
from agentgym_cli.verbs.workload import plan_of

SHARED_MEMORY = Path("/dev/shm")
NEEDED_SHARED_MIB = {True: 256, False: 4096}
"""For weights on their way to vLLM and for Ray's objects: in a rehearsal, and with real weights."""
BYTES_PER_WEIGHT, BYTES_OF_MOMENTS = 4, 8
"""Of one checkpoint: weights and the two moments of AdamW, each in float32; what is frozen below adapters has no moments."""

COUNTED_CPUS = "ray_kwargs.ray_init.num_cpus"
"""verl's key of how many CPUs its Ray counts, whatever there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is."""

    gpus: GpuSurvey
    flash_attention: bool
    shared_mib: float | None
    """None where the system has no such place."""
    disk_bytes: int
    """Free where the run's folder is."""
    memory_bytes: int
    """Of the machine itself, as far as this process may take it."""
    cpus: int
    """Of the machine, as Ray counts them."""


def look(folder: Path, *, rehearsal: bool) -> Machine:
    """This machine. GPUs are not asked for in a rehearsal."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    shared = shutil.disk_usage(SHARED_MEMORY).total / 1024**2 if SHARED_MEMORY.is_dir() else None
    return Machine(
        gpus=GpuSurvey(memory_mib=(), why_none="a rehearsal") if rehearsal else visible_gpus(),
        flash_attention=installed_version("flash-attn") is not None,
        shared_mib=shared,
        disk_bytes=shutil.disk_usage(place).free,
        memory_bytes=machine_memory(),
        cpus=os.cpu_count() or 1,
    )


def require_launchable(prepared: Prepared) -> None:
    """``require_machine`` for a run on this machine. Raises RecipeError also for a model that nobody knows."""
    run, beside = prepared.run, prepared.frozen.beside
    shape, _ = shape_of(run, beside)
    model = try_find(run.policy.own_model.path, beside=beside)
    found = last_verl_checkpoint(prepared.folder / FOLDER, digest=prepared.frozen.digest) if prepared.resumed else None
    if run.cluster is not None:
        desk_host(run.cluster)
    machine = look(prepared.folder.absolute(), rehearsal=rehearses(run))
    require_machine(run, machine, shape=shape, model=model, done=0 if found is None else found.step)


def require_machine(run: Run, machine: Machine, *, shape: ModelShape, model: Path | None, done: int = 0) -> None:
    """Refuse a launch that this machine cannot carry.

    Args:
        shape: the network that is trained; not asked for in a rehearsal.
        model: folder of the model's files, None where they are not on this machine.
        done: step of the checkpoint that the run goes on from.

    Raises:
        TrainerError: GPUs, CPUs, memory, shared memory or disk.
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
        _require_one_machine(cluster)
        require_gpus(cluster, machine.gpus)
        _require_cpus(run, cluster, machine)
        _require_host(run, machine, shape)
    if cluster.nodes > 1 and run.env.urls is None:
        raise TrainerError(
            f"env.urls: expected addresses that all {cluster.nodes} machines reach, got a world that is served on this one, for it alone",
            "agentgym serve WORLD --host ADDRESS, then env.urls=[http://ADDRESS:PORT]",
        )
    _require_attention(run, machine)
    if model is None:
        name = run.policy.own_model.path
        raise PolicyError(
            f"policy.model.path: expected the files of {name} on this machine, got none: a launch asks no hub",
            f"hf download {name} --local-dir DIR, then policy.model.path=DIR",
        )
    _require_disk(run, machine, shape, done=done)


def _require_cpus(run: Run, cluster: ClusterSpec, machine: Machine) -> None:
    """A Ray of the run's own waits without end for CPUs that it does not count. Demonstrations are learned without Ray."""
    if run.train is not None and isinstance(run.train.algorithm, SftSpec):
        return
    said = [text for key, _, text in (override.partition("=") for override in cluster.verl) if key == COUNTED_CPUS]
    counted = int(said[-1]) if said and said[-1].isdecimal() else machine.cpus
    needed = CPUS_PER_GPU * cluster.gpus + CPUS_BESIDE[False]
    if counted < needed:
        raise TrainerError(
            f"cluster.gpus_per_node: expected {needed} CPUs beside {cluster.gpus} GPUs, as Ray counts them, got {counted}",
            f"verl.{COUNTED_CPUS}={needed} has Ray count as many as verl asks for; fewer real ones are slower",
        )


def _require_host(run: Run, machine: Machine, shape: ModelShape) -> None:
    """What is offloaded, and a reference, lie in the machine's own memory."""
    kind, layout = devices_of(run)
    work = plan_of(run, shape, kind, layout).work
    needed = 0 if work is None else training_memory(shape, work, layout).host * layout.trainers
    if needed > machine.memory_bytes and run.engine.memory_check == "error":
        there = f"{machine.memory_bytes / 1024**3:.0f} GiB"
        less = "" if layout.offload == "none" else "cluster.offload=none, "
        raise TrainerError(
            f"cluster.offload: expected {needed / 1024**3:.0f} GiB of memory beside the GPUs for it and a reference, got {there}",
            f"{less}train.algorithm.kl_coefficient=0 (no reference), or engine.memory_check=warn, which goes on all the same",
        )


def _require_one_machine(cluster: ClusterSpec) -> None:
    if cluster.nodes > 1:
        raise TrainerError(
            f"cluster.ray_address: expected the Ray cluster of {cluster.nodes} machines, got none: a Ray of the run's own is on this machine alone",
            "cluster.ray_address=HOST:PORT, or cluster.nodes=1",
        )


def _require_attention(run: Run, machine: Machine) -> None:
    """verl loads a critic with flash attention, whatever its settings say."""
    critic = run.train is not None and isinstance(run.train.algorithm, PpoSpec)
    other = run.cluster is not None and any("attn_implementation" in override for override in run.cluster.verl)
    if machine.flash_attention or (other and not critic):
        return
    section = "model" if run.train is not None and isinstance(run.train.algorithm, SftSpec) else "actor_rollout_ref.model"
    way_out = "" if critic else f", or verl.{section}.override_config.attn_implementation=sdpa"
    raise LockError(
        f"engine verl: expected flash-attn to be installed{', which verl loads a critic with' if critic else ''}, got none",
        f"install it beside the stack (docs/gpu.md){way_out}",
    )


def require_gpus(cluster: ClusterSpec, found: GpuSurvey) -> None:
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


def _require_disk(run: Run, machine: Machine, shape: ModelShape, *, done: int) -> None:
    train = run.train
    assert train is not None, "only runs that train are launched"
    count = _checkpoints(train, done=done)
    networks = 2 if isinstance(train.algorithm, PpoSpec) else 1
    adapters = 0 if train.lora is None else shape.adapter_parameters(train.lora.rank, train.lora.targets)
    # A critic is trained whole, beside adapters too.
    learning = shape.parameters * (networks - 1) + (adapters or shape.parameters)
    needed = count * (BYTES_PER_WEIGHT * (networks * shape.parameters + adapters) + BYTES_OF_MOMENTS * learning)
    if machine.disk_bytes < needed:
        gib = 1024**3
        raise TrainerError(
            f"store.runs_dir: expected {needed / gib:.0f} GiB free for {count} checkpoints, got {machine.disk_bytes / gib:.0f} GiB",
            "--runs-dir names another disk; train.keep_checkpoints=2 keeps the last two, a higher train.checkpoint_every writes fewer",
        )


def _checkpoints(train: TrainSpec, *, done: int) -> int:
    """Most checkpoints on the disk at once beside those that are there: all still to be written, or as many as are kept and the one being written."""
    written = done // train.checkpoint_every
    left = math.ceil(train.steps / train.checkpoint_every) - written
    kept = train.keep_checkpoints
    return left if kept is None else min(left, kept + 1 - min(kept, written))


def desk_host(cluster: ClusterSpec) -> str:
    """Address at which workers reach the launcher: this machine's own on the way to the Ray cluster. Raises TrainerError."""
    named = whole_environment().get("RAY_ADDRESS") if cluster.ray_address == "auto" else cluster.ray_address
    if cluster.ray_address is None or (named in (None, "auto") and cluster.nodes == 1):
        return "127.0.0.1"
    host, _, port = (named or "auto").rpartition("//")[2].rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:  # connecting a datagram socket sends nothing
            way.connect((host, int(port)))
            return str(way.getsockname()[0])
    except (OSError, OverflowError, ValueError) as err:
        raise TrainerError(
            f"cluster.ray_address: expected HOST:PORT of a Ray cluster that this machine reaches, got {cluster.ray_address!r}",
            "ray status prints it on the cluster's first machine",
        ) from err


def require_same_ranks(cluster: ClusterSpec, ranks: int) -> None:
    """verl's shards are read by as many processes as wrote them. Raises TrainerError."""
    if cluster.gpus != ranks:
        raise TrainerError(
            f"cluster: expected the {ranks} GPUs that wrote the checkpoint, got {cluster.gpus}",
            "resume with as many, or agentgym export RUN and start a new run from the exported model",
        )
