"""Bytes that sampling needs on one device, and how many sequences their cache holds. Two budgets: the policy's, and the cache of its episodes."""

from __future__ import annotations

from dataclasses import dataclass, fields

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GIB
from agentgym_cli.capacity.layout import Layout

_SAMPLED_ROWS = 256
"""Rows of logits that are sampled at once, 8 bytes a number."""
_GRAPHS = GIB // 2
"""Captured graphs of the decoding step."""
_BLOCK = 16
"""Tokens of one block of the cache: a sequence takes whole blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingMemory:
    """Bytes on one device while episodes are played."""

    weights: int
    """The sampler's own; of one process, its copies of fused projections."""
    working: int
    """Activations of one batch, logits, captured graphs."""
    cache_per_token: int
    """Of one token of one sequence, on one device."""
    cache_per_sequence: int
    """At the limit of context."""
    wanted: int
    """Sequences that the device should hold at once."""
    fixed_cache: bool
    """Whether the cache is made whole before the first episode, as one process does; else it takes what is left."""

    @property
    def cache(self) -> int:
        """Bytes of cache for all wanted sequences at the limit of context."""
        return self.cache_per_sequence * self.wanted

    @property
    def least(self) -> int:
        """What sampling needs to run at all: one sequence, or all of them where the cache is fixed."""
        return self.weights + self.working + (self.cache if self.fixed_cache else self.cache_per_sequence)

    def sequences(self, room: int) -> int:
        """Sequences at the limit of context that ``room`` bytes, weights included, hold at once; 0 where not one fits."""
        left = room - self.weights - self.working
        return max(0, left // self.cache_per_sequence)

    def parts(self) -> dict[str, int]:
        """Every part by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name in ("weights", "working")} | {"cache": self.cache}


def sampling_memory(shape: ModelShape, layout: Layout, *, context: int, sequences: int, merged: int = 0) -> SamplingMemory:
    """Bytes on one device for ``sequences`` episodes of ``context`` tokens on all of them together; ``merged`` numbers of weights are copied."""
    number = 4 if layout.local else 2
    parallel = layout.tensor_parallel
    # Key/value heads that are fewer than the devices are kept several times.
    kept_heads = max(shape.key_value_heads, parallel)
    token = 2 * shape.layers * kept_heads * shape.head_dim * number // parallel
    return SamplingMemory(
        weights=_weights(shape, layout, number) + number * merged,
        working=_working(shape, layout),
        cache_per_token=token,
        cache_per_sequence=token * (context if layout.local else -(-context // _BLOCK) * _BLOCK),
        wanted=-(-sequences // layout.replicas),
        fixed_cache=layout.local,
    )


def _weights(shape: ModelShape, layout: Layout, number: int) -> int:
    if layout.local:
        fused = shape.hidden * (shape.width + 2 * shape.narrow) + 2 * shape.hidden * shape.intermediate
        return number * shape.layers * fused
    return -(-number * shape.parameters // layout.tensor_parallel)


def _working(shape: ModelShape, layout: Layout) -> int:
    if layout.local:
        return 0
    # For tokens that are read at once vLLM keeps 6 bytes a number of the MLP's width and 3 a number of the hidden state.
    read = layout.batched_tokens * (6 * shape.intermediate // layout.tensor_parallel + 3 * shape.hidden)
    return read + 8 * _SAMPLED_ROWS * shape.vocabulary + _GRAPHS
