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
    """A frozen copy is kept for the KL term: by one process beside adapters too; on GPUs in the host's memory, or as the model below adapters."""
    critic: bool
    """A second model of the same size learns beside the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Bytes on one device at the fullest moment of an update; each part stands alone."""

    weights: int
    """Master weights."""
    gradients: int
    optimizer: int
    """Two moments a number that learns."""
    reference: int
    critic: int
    """Of its weights, gradients and moments, what lies beside those of the policy; where they take turns, what it has more than the policy."""
    gathered: int
    """Layers and embeddings as whole as a product needs them, where state is sharded."""
    activations: int
    logits: int
    resting: int
    """Bytes on the device while episodes are played: what is not offloaded; gradients are there in one process alone."""
    host: int
    """Bytes in the host's memory, for this device; on no device."""

    @property
    def resident(self) -> int:
        """What stays on the device between two passes of an update."""
        return self.weights + self.gradients + self.optimizer + self.reference + self.critic

    @property
    def total(self) -> int:
        """The most at one time."""
        return self.resident + self.gathered + self.activations + self.logits

    def parts(self) -> dict[str, int]:
        """Every part on the device by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("resting", "host")}


def host_of_machine(training: TrainingMemory | None, layout: Layout) -> int:
    """Bytes in the memory of one machine, for all its GPUs that train."""
    return 0 if training is None else training.host * min(layout.trainers, layout.per_machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """Bytes that one network has on one device and in the host's memory."""

    weights: int
    gradients: int
    optimizer: int
    resting: int
    """Of these, on the device while another network is at work, or none is."""
    host: int

    @property
    def busy(self) -> int:
        """On the device while it is updated."""
        return self.weights + self.gradients + self.optimizer


def training_memory(shape: ModelShape, work: Workload, layout: Layout) -> TrainingMemory:
    """Bytes on one device of the layout."""
    policy = _state(shape.parameters + work.adapters, work.trained, layout)
    critic = _state(*critic_numbers(shape, work, layout), layout) if work.critic else _NONE
    reference = _reference(shape, work, layout)
    return TrainingMemory(
        weights=policy.weights,
        gradients=policy.gradients,
        optimizer=policy.optimizer,
        reference=reference if layout.local else 0,
        critic=max(critic.resting, critic.busy + policy.resting - policy.busy),
        gathered=_gathered(shape, work, layout),
        activations=work.pass_tokens * activation_bytes(shape, checkpointing=layout.checkpointing, half=layout.half),
        logits=_logits(shape, work, layout),
        resting=policy.resting + critic.resting + (reference if layout.local else 0),
        host=policy.host + critic.host + (0 if layout.local else reference),
    )


def critic_numbers(shape: ModelShape, work: Workload, layout: Layout) -> tuple[int, int]:
    """Numbers of a critic, and how many learn: a body like the policy's and a head of one number. In one process it has adapters where the policy
    has, and they and the head alone learn; on GPUs it has none."""
    adapters, head = work.adapters if layout.local else 0, shape.hidden
    return shape.parameters + adapters + head, (adapters or shape.parameters) + head


def _state(parameters: int, trained: int, layout: Layout) -> _State:
    """Of a network of so many numbers, of which so many learn. While it rests, moments may be away, or weights too; its gradients are freed then, but
    in one process."""
    shards, offload = layout.trainers, layout.offload
    weights, gradients, optimizer = _share(_MASTER * parameters, shards), _share(_GRADIENT * trained, shards), _share(_MOMENTS * trained, shards)
    if layout.local:
        return _State(weights=weights, gradients=gradients, optimizer=optimizer, resting=weights + gradients + optimizer, host=0)
    if offload == "streamed":
        return _State(weights=0, gradients=0, optimizer=0, resting=0, host=weights + gradients + optimizer)
    away = {"none": 0, "optimizer": optimizer, "all": weights + optimizer}[offload]
    return _State(weights=weights, gradients=gradients, optimizer=optimizer, resting=weights + optimizer - away, host=away)


_NONE = _State(weights=0, gradients=0, optimizer=0, resting=0, host=0)


def _reference(shape: ModelShape, work: Workload, layout: Layout) -> int:
    """Bytes of the frozen copy, in float32, wherever it lies."""
    if not work.reference or (work.adapters and not layout.local):
        return 0
    return _share(4 * (shape.parameters + work.adapters), layout.trainers)


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
