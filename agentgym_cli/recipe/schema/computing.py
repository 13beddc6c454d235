"""What does the computing, on which machines, and where results go."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, Name, NonNegative, section

Offload = Literal["none", "optimizer", "all", "streamed"]
VerlKey = Annotated[str, Field(max_length=2000, pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*=.*$")]


@section
class EngineSpec:
    """What does the computing."""

    kind: Literal["local", "verl"] = "local"
    """``local`` trains in one process, in torch; ``verl`` on Ray with vLLM."""
    stack: Name
    """Lock file (lockfiles/STACK.txt) that this profile runs in."""
    drift: Literal["error", "warn"] = "warn"
    """What a difference between the interpreter and the lock is."""
    slots: Count = 64
    """Rows of the decoding wave of the local engine; also the most episodes in flight."""
    threads: Count = 1
    """Torch threads; part of the fingerprint."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the local engine trains and samples; ``cuda`` is the first GPU that torch sees, and its bits are not promised to be equal."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the products while the local engine trains; weights, their optimizer, probabilities and losses stay float32. Sampling stays float32."""
    activation_checkpointing: bool = False
    """Compute the inside of each layer again on the way back in place of keeping it: less memory, about a third more time."""
    memory_check: Literal["error", "warn"] = "error"
    """What it is where the estimate of ``agentgym capacity`` needs more memory than there is; ``warn`` says so and goes on. Outside the digest."""
    pass_tokens: Count = 2048
    """Most tokens, padding included, of one pass forward and back; the gradient of an update is added up over as many passes as it takes, so this
    bounds memory and changes no result but by rounding. One longer trajectory is a pass of its own."""


@section
class ClusterSpec:
    """The GPUs of an engine that runs on Ray. Profile ``gpu`` is chosen by itself where one machine has ``gpus_per_node`` of them."""

    nodes: Count = 1
    """Machines."""
    gpus_per_node: NonNegative
    """GPUs on each machine; 0 for a rehearsal, in which a CPU stands for one GPU."""
    gpu_memory_gib: NonNegative = 0
    """Least memory of each GPU, in GiB; 0 takes any."""
    tensor_parallel: Count = 1
    """GPUs that share one copy of the policy while it samples."""
    offload: Offload = "none"
    """What of the training state lies in the memory of the GPUs' machine: ``optimizer`` its moments, ``all`` its weights too, both whenever their
    network is not at work; ``streamed`` all of it during updates too, which the machine then makes: weights come to the GPU a layer at a time. A
    frozen reference always lies there."""
    max_staleness: NonNegative = 0
    """Optimizer steps that may lie between the weights that sample a token and those that learn from it. 0 plays each step's episodes between two
    updates (verl's trainer ``sync``). More plays those of so many coming steps ahead, while the slow ones of the present step are waited for, and an
    update interrupts them (``colocate_async``)."""
    verl: tuple[VerlKey, ...] = ()
    """Further keys of verl's configuration as ``KEY=VALUE`` in its own words; they win over what this program sets. ``verl.KEY=VALUE`` on the
    command line adds one."""
    ray_address: Annotated[str, Field(min_length=1)] | None = None
    """Address of a running Ray cluster; None starts Ray on this machine. Outside the digest."""

    @property
    def gpus(self) -> int:
        """GPUs of all machines; a rehearsal counts as one."""
        return self.nodes * max(1, self.gpus_per_node)


@section
class StoreSpec:
    """Where results go. Paths never change a result, so they are outside the digest."""

    runs_dir: Annotated[str, Field(min_length=1)] = "runs"
    """Folder that gets one folder per run."""
    database: Annotated[str, Field(min_length=1)] = "results.duckdb"
    """Store file; several runs can share it."""
    keep_tokens: Literal["all", "failures", "none"] = "none"
    """Attempts of which token ids, mask and log-probabilities are kept: all, those that are no success, or none. Changes no result."""
