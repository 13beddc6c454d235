"""On what a run computes, and which network it has: from its recipe, or as somebody asks for. Loads no weights and asks no driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GpuKind, find_gpu, gpu_kinds, smallest_gpu, this_machine
from agentgym_cli.capacity.known_models import find_known, known_models, namesake
from agentgym_cli.capacity.layout import MACHINE, SHARE, Layout, colocated, one_process
from agentgym_cli.capacity.model_config import read_shape
from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.keys import REINFORCING, Keys
from agentgym_cli.learn.verl.memory import memory_keys
from agentgym_cli.learn.verl.sft.keys import IMITATING
from agentgym_cli.recipe.data import try_find
from agentgym_cli.recipe.schema.algorithms import OnlineSpec, SftSpec
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import listed, shown
from agentgym_cli.verbs.machine import machine_memory

_MOST_GPUS = 100_000
_DEFAULT_KIND = "a100-80g"
_HINT = "docs/capacity.md says what is counted"


def shape_of(run: Run, folders: Sequence[Path]) -> tuple[ModelShape, int | None]:
    """The network of a run's model, from its folder or the shipped table, and its published count. Raises RecipeError."""
    name = run.policy.own_model.path
    folder, known = try_find(name, beside=folders), find_known(name)
    if folder is not None:
        return _long_enough(run, read_shape(folder / "config.json")), None
    if known is None:
        other, names = namesake(name), listed(model.name for model in known_models().values())
        hint = f"name its folder, or the published one: policy.model.path={other.maker}/{other.name}" if other else "name a local model folder"
        raise RecipeError(f"policy.model.path: expected a folder with config.json or one of {names}, got {shown(name)}", hint)
    return _long_enough(run, known.shape), known.published


def _long_enough(run: Run, shape: ModelShape) -> ModelShape:
    """The same shape, where it was made for contexts as long as the run's. Only an engine of its own leaves rotary positions as they are."""
    acts = run.train is not None or run.evaluation.policy == "checkpoint"
    if shape.positions is None or not acts:
        return shape
    longest = shape.positions if run.engine.kind == "local" else int(shape.positions * shape.stretch)
    if run.budgets.context_tokens > longest:
        raise RecipeError(
            f"budgets.context_tokens: expected at most the {longest:,} positions of {run.policy.own_model.path}, got {run.budgets.context_tokens:,}",
            f"budgets.context_tokens={longest}",
        )
    return shape


def devices_of(run: Run, *, gpu: str | None = None) -> tuple[GpuKind, Layout]:
    """What a run computes on, and how it is spread over it; ``gpu`` takes the place of the kind that its profile asks for.

    Raises:
        RecipeError: an unknown kind, or a GPU that nobody named.
    """
    engine, layout = run.engine, layout_of(run)
    if gpu is not None:
        return find_gpu(gpu), layout
    if engine.kind != "local":
        return _asked_for(_cluster(run)), layout
    if engine.device == "cuda":
        raise RecipeError("--gpu: expected a kind of GPU, since engine.device is cuda, got none", f"--gpu {_DEFAULT_KIND}")
    return this_machine(memory=machine_memory(), threads=engine.threads), layout


def layout_of(run: Run) -> Layout:
    """How a run is spread over its devices."""
    engine = run.engine
    if engine.kind == "local":
        return one_process(checkpointing=engine.activation_checkpointing, half=engine.precision == "bfloat16")
    cluster = _cluster(run)
    said, learned = memory_keys(cluster, keys_of(run)), run.train is None or isinstance(run.train.algorithm, OnlineSpec)
    spread = colocated(cluster.gpus, tensor_parallel=said.tensor_parallel, per_machine=max(1, cluster.gpus_per_node))
    return replace(
        spread,
        placement="colocated" if learned else "one after the other",
        checkpointing=said.checkpointing,
        fused_head=said.fused_head,
        offload=said.offload,
        # A sampler beside which nothing is trained takes vLLM's own share.
        share=said.share if run.train is not None and learned else SHARE,
        batched_tokens=said.batched_tokens,
    )


def keys_of(run: Run) -> Keys:
    """The keys of the trainer of verl's that a run starts."""
    return IMITATING if run.train is not None and isinstance(run.train.algorithm, SftSpec) else REINFORCING


def _cluster(run: Run) -> ClusterSpec:
    return run.cluster or ClusterSpec(gpus_per_node=1)


def gpus_wanted(run: Run, gpus: int) -> tuple[str, ...]:
    """Overrides by which a run has so many GPUs: one machine's, or machines of eight, or of as many as its recipe has where those are more.

    Raises:
        RecipeError: none, more than can be meant, a number that machines are not full with, or an engine of one process.
    """
    if not 1 <= gpus <= _MOST_GPUS:
        raise RecipeError(f"--gpus: expected 1 to {_MOST_GPUS:,}, got {shown(gpus)}", _HINT)
    if run.engine.kind == "local":
        if gpus == 1:
            return ()
        raise RecipeError(
            f"--gpus: expected 1 with engine local, which is one process on one device, got {gpus}", "profile=gpu where the recipe has it"
        )
    machine = machine_of(run)
    if gpus > machine and gpus % machine:
        raise RecipeError(f"--gpus: expected up to {machine}, or a multiple of {machine} (machines of {machine} GPUs), got {gpus}", _HINT)
    return tuple(f"{key}={value}" for key, value in machines_of(gpus, machine).items())


def machine_of(run: Run) -> int:
    """GPUs of a full machine: eight, or as many as the recipe has in one."""
    return max(MACHINE, _cluster(run).gpus_per_node)


def machines_of(gpus: int, machine: int) -> dict[str, int]:
    """The keys that ask for so many GPUs, in full machines."""
    return {"cluster.nodes": max(1, gpus // machine), "cluster.gpus_per_node": min(gpus, machine)}


def _asked_for(cluster: ClusterSpec) -> GpuKind:
    """The slowest kind of the memory that a cluster names."""
    if cluster.gpus_per_node == 0:
        return this_machine(memory=machine_memory(), threads=1)
    found = smallest_gpu(cluster.gpu_memory_gib) if cluster.gpu_memory_gib else gpu_kinds()[_DEFAULT_KIND]
    if found is None:
        raise RecipeError(f"cluster.gpu_memory_gib: expected the memory of a known GPU, got {cluster.gpu_memory_gib}", "name the kind with --gpu")
    return found
