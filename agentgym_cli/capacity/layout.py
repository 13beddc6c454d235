"""How a model is spread over devices while it is trained and sampled from, and which spreads are impossible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GpuKind
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.schema.computing import Offload

MACHINE = 8
"""GPUs of one machine, where nobody says."""
SHARE = 0.9
"""Of a GPU that vLLM takes where nobody says otherwise (its ``gpu_memory_utilization``)."""
COLOCATED_SHARE = 0.5
"""The same beside a trainer: verl's own."""
Placement = Literal["one process", "colocated", "separate", "one after the other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Devices and what each of them does."""

    devices: int
    """GPUs in all; 1 for the local engine."""
    placement: Placement
    """``one process``: the local engine, float32, the sampler reads the trainer's weights. ``colocated``: trainer and sampler take turns on every
    GPU. ``separate``: each has GPUs of its own. ``one after the other``: a trainer of stored data, which is gone while an evaluation samples."""
    trainers: int
    """GPUs that training state is sharded over; with ``colocated`` all of them."""
    samplers: int
    """GPUs that sample; with ``colocated`` all of them."""
    tensor_parallel: int = 1
    """GPUs that share one copy of the policy while it samples."""
    per_machine: int = MACHINE
    """GPUs of one machine; those of several reach each other over a network."""
    checkpointing: bool = True
    """Compute the inside of a layer again on the way back in place of keeping it."""
    half: bool = True
    """Products are bfloat16 while training; of one process, float32 unless its recipe says otherwise."""
    fused_head: bool = False
    """Compute logits in pieces that are never kept whole."""
    offload: Offload = "none"
    """What of the training state lies in the host's memory, as ``cluster.offload`` has it."""
    share: float = SHARE
    """Share of a GPU that the sampler takes, all of it, whatever else lies there."""
    batched_tokens: int = 8192
    """Tokens that the sampler reads at once."""

    @property
    def replicas(self) -> int:
        """Copies of the policy that sample."""
        return self.samplers // self.tensor_parallel

    @property
    def machines(self) -> int:
        """How many machines the devices are on."""
        return -(-self.devices // self.per_machine)

    def wire(self, kind: GpuKind) -> float:
        """Bytes a second that each device passes on in a ring of all of them: those of its slowest stretch."""
        return min(kind.link, kind.network) if self.machines > 1 else kind.link

    @property
    def local(self) -> bool:
        """Whether one process does everything."""
        return self.placement == "one process"


def check_layout(layout: Layout, shape: ModelShape) -> Layout:
    """The same layout, where it is possible. Raises RecipeError where it is not."""
    if min(layout.devices, layout.trainers, layout.samplers, layout.tensor_parallel) < 1:
        raise RecipeError(f"layout: expected at least one GPU for everything, got {layout.devices} in all", "--gpus N with N of 1 or more")
    together = layout.trainers if layout.placement != "separate" else layout.trainers + layout.samplers
    if together > layout.devices:
        raise RecipeError(
            f"layout: expected at most {layout.devices} GPUs, got {layout.trainers} that train and {layout.samplers} that sample",
            "--gpus N with more",
        )
    parallel = layout.tensor_parallel
    if layout.samplers % parallel:
        raise RecipeError(
            f"cluster.tensor_parallel: expected a divisor of the {layout.samplers} GPUs that sample, got {parallel}", "lower it, or change --gpus"
        )
    if shape.heads % parallel:
        raise RecipeError(
            f"cluster.tensor_parallel: expected a divisor of the model's {shape.heads} attention heads, got {parallel}", "1, 2, 4 and 8 are usual"
        )
    # As vLLM asserts: key/value heads are shared out, or each kept equally often; the MLP is shared out.
    if shape.key_value_heads % parallel and parallel % shape.key_value_heads:
        raise RecipeError(
            f"cluster.tensor_parallel: expected a divisor or a multiple of the model's {shape.key_value_heads} key/value heads, got {parallel}",
            "1, 2, 4 and 8 are usual",
        )
    if shape.intermediate % parallel:
        raise RecipeError(
            f"cluster.tensor_parallel: expected a divisor of the {shape.intermediate:,} numbers of the model's MLP, got {parallel}",
            "1, 2, 4 and 8 are usual",
        )
    return layout


def colocated(devices: int, *, tensor_parallel: int = 1, per_machine: int = MACHINE) -> Layout:
    """Trainer and sampler on every GPU, in turns: what an engine on Ray does unless it is told otherwise."""
    return Layout(
        devices=devices,
        placement="colocated",
        trainers=devices,
        samplers=devices,
        tensor_parallel=tensor_parallel,
        per_machine=per_machine,
        share=COLOCATED_SHARE,
    )


def separate(devices: int, *, trainers: int, tensor_parallel: int = 1, per_machine: int = MACHINE) -> Layout:
    """``trainers`` GPUs train, the others sample."""
    samplers = devices - trainers
    return Layout(
        devices=devices, placement="separate", trainers=trainers, samplers=samplers, tensor_parallel=tensor_parallel, per_machine=per_machine
    )


def one_process(*, checkpointing: bool, half: bool = False) -> Layout:
    """The local engine; ``half`` trains with products in bfloat16."""
    return Layout(devices=1, placement="one process", trainers=1, samplers=1, checkpointing=checkpointing, half=half)
