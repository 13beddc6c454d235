"""Bytes that training needs on one device, by what they are for: state that stays, what else is kept, and what one pass makes.

Factors are of mixed precision: float32 master weights, gradients and two Adam moments, bfloat16 products; one process trains in float32 throughout.
Activations follow arXiv 2205.05198, section 4, for attention that keeps no scores and a gated MLP.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.layout import Layout

_MASTER, _GRADIENT, _MOMENTS = 4, 4, 8
_LOGITS = 16
"""Bytes of one logit on a GPU: bfloat16 logits 2, their float32 copy 4, its softmax 4, a gradient in float32 4 and in bfloat16 2."""
_LOGITS_LOCAL = 16
"""In float32: logits, log-softmax, probabilities and a gradient, 4 each."""
_FUSED_HEAD_TOKENS = 256
"""Tokens of one piece of a head that computes logits in pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is trained, in numbers that bytes follow from."""

    pass_tokens: int
    """Most tokens of one pass forward and back on one device."""
    trained: int
    """Numbers that learn: all of them, the gains, or adapters."""
    adapters: int
    """Of these, numbers beside the model: low-rank adapters; 0 without."""
    merged: int = 0
    """Numbers of the weights that adapters stand beside; one process samples from a second copy of them, with the adapters merged."""
    reference: bool
    """A frozen copy is kept for the KL term; one process keeps it beside adapters too, on GPUs the model below them is one."""
    critic: bool
    """A second model of the same size learns beside the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Bytes on one device while the policy is updated; each part stands alone."""

    weights: int
    """Master weights."""
    gradients: int
    optimizer: int
    """Two moments a number that learns."""
    reference: int
    critic: int
    """Its weights, gradients and moments."""
    gathered: int
    """Layers and embeddings as whole as a product needs them, where state is sharded."""
    activations: int
    logits: int
    host: int
    """Bytes offloaded to the host's memory, for this device; on no device."""

    @property
    def resident(self) -> int:
        """What stays on the device between passes."""
        return self.weights + self.gradients + self.optimizer + self.reference + self.critic

    @property
    def total(self) -> int:
        """The most at one time."""
        return self.resident + self.gathered + self.activations + self.logits

    def parts(self) -> dict[str, int]:
        """Every part on the device by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "host"}


def training_memory(shape: ModelShape, work: Workload, layout: Layout) -> TrainingMemory:
    """Bytes on one device of the layout."""
    shards = layout.trainers
    weights = _share(_MASTER * (shape.parameters + work.adapters), shards)
    gradients, optimizer = _share(_GRADIENT * work.trained, shards), _share(_MOMENTS * work.trained, shards)
    copied = 4 * (shape.parameters + work.adapters) if layout.local else 0 if work.adapters else 2 * shape.parameters
    reference = _share(copied, shards) if work.reference else 0
    critic = _share(_critic(shape, work), shards) if work.critic else 0
    kept = 0 if layout.offload else 1
    return TrainingMemory(
        weights=kept * weights,
        gradients=kept * gradients,
        optimizer=kept * optimizer,
        reference=kept * reference,
        critic=kept * critic,
        gathered=_gathered(shape, work, layout),
        activations=work.pass_tokens * activation_bytes(shape, checkpointing=layout.checkpointing, half=layout.half),
        logits=_logits(shape, work, layout),
        host=(1 - kept) * (weights + gradients + optimizer + reference + critic),
    )


def _critic(shape: ModelShape, work: Workload) -> int:
    """A body like the policy's and a head of one number; with adapters they and the head alone learn, else all of it."""
    return _MASTER * (shape.parameters + work.adapters + shape.hidden) + (_GRADIENT + _MOMENTS) * ((work.adapters or shape.parameters) + shape.hidden)


def activation_bytes(shape: ModelShape, *, checkpointing: bool, half: bool) -> int:
    """Bytes of activations of one token, over all layers.

    A layer keeps its input, both norms' float32 inputs and outputs, queries, keys, values and their rotation, the attention's output, and four times
    the MLP's width. With checkpointing each layer keeps its input alone, and one layer is whole at a time, together with its gradients.
    """
    number = 2 if half else 4
    layer = 16 * shape.hidden + 2 * number * (shape.width + shape.narrow) + 4 * number * shape.intermediate
    if checkpointing:
        return shape.layers * number * shape.hidden + 2 * layer
    return shape.layers * layer


def _gathered(shape: ModelShape, work: Workload, layout: Layout) -> int:
    """One process has everything whole already. Sharded, the embedding and two layers are gathered in bfloat16, gradients to be spread in float32."""
    if layout.local:
        return 0
    whole = shape.embedding_parameters + 2 * shape.layer_parameters
    spread = 0 if work.adapters else 4 * shape.embedding_parameters
    return 2 * whole + spread


def _logits(shape: ModelShape, work: Workload, layout: Layout) -> int:
    if layout.local:
        return _LOGITS_LOCAL * work.pass_tokens * shape.vocabulary
    tokens = min(work.pass_tokens, _FUSED_HEAD_TOKENS) if layout.fused_head else work.pass_tokens
    return _LOGITS * tokens * shape.vocabulary


def _share(size: int, shards: int) -> int:
    return -(-size // shards)
