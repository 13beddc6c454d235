"""Bytes that a model needs to be trained and sampled from, counted from its config.json. Separate budgets, never one number."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from agentgym_cli.errors import RecipeError

_FIELDS = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "vocab_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder of the Qwen2 or Llama family: query, key and value projections, with biases or without, gated MLP, two norms a layer."""

    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    head_dim: int
    layers: int
    vocabulary: int
    tied: bool
    biased: bool = True
    """Whether the query, key and value projections have biases, as Qwen2's do and Llama's do not."""

    @property
    def parameters(self) -> int:
        """Exact count of trainable numbers."""
        width, narrow = self.heads * self.head_dim, self.key_value_heads * self.head_dim
        biases = width + 2 * narrow if self.biased else 0
        attention = self.hidden * (width + 2 * narrow) + biases + width * self.hidden
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return embeddings + self.layers * layer + self.hidden

    def cache_bytes_per_token(self, bytes_per_number: int) -> int:
        """Key/value cache of one token of context."""
        return 2 * self.layers * self.key_value_heads * self.head_dim * bytes_per_number


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """Bytes on one device, by what they are for."""

    parameters: int
    """Numbers in the whole model; a count, not bytes."""
    trainer_state: int
    """fp32 weights, gradients and both Adam moments, sharded over the devices."""
    reference: int
    """Frozen weights for the KL term, sharded; 0 without one."""
    sampler_weights: int
    """Weights the sampler holds apart from the trainer's; 0 where they are shared."""
    cache_per_sequence: int
    """Key/value cache of one sequence at the context limit."""
    sequences: int
    """Sequences decoded at once."""
    logits: int
    """fp32 logits and their gradient for one sequence at the context limit."""

    @property
    def cache(self) -> int:
        """Key/value cache of all sequences."""
        return self.cache_per_sequence * self.sequences

    @property
    def peak(self) -> int:
        """Trainer, reference and logits while updating, or sampler and cache beside them while sampling: the larger."""
        resident = self.trainer_state + self.reference
        return resident + max(self.logits, self.sampler_weights + self.cache)


def read_shape(config: Path) -> ModelShape:
    """Read a config.json. Raises RecipeError for another architecture or a missing field."""
    try:
        data = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise RecipeError(f"{config}: expected a model's config.json, got {err}", "name a folder that holds config.json") from err
    if not isinstance(data, dict) or data.get("model_type") not in ("qwen2", "llama"):
        got = data.get("model_type") if isinstance(data, dict) else type(data).__name__
        raise RecipeError(f"{config}: expected model_type 'qwen2' or 'llama', got {got!r}", "capacity counts the Qwen2 and Llama families only")
    wrong = [name for name in _FIELDS if type(data.get(name)) is not int or data[name] < 1]
    if wrong:
        raise RecipeError(f"{config}: expected positive whole numbers in {', '.join(wrong)}", "complete the model's config.json")
    heads = data["num_attention_heads"]
    return ModelShape(
        hidden=data["hidden_size"],
        intermediate=data["intermediate_size"],
        heads=heads,
        key_value_heads=data["num_key_value_heads"],
        head_dim=data.get("head_dim") or data["hidden_size"] // heads,
        layers=data["num_hidden_layers"],
        vocabulary=data["vocab_size"],
        tied=bool(data.get("tie_word_embeddings", False)),
        biased=data["model_type"] == "qwen2",
    )


def shared_memory_budget(shape: ModelShape, *, context: int, sequences: int, reference: bool) -> MemoryBudget:
    """The local engine: fp32 throughout, the sampler reads the trainer's weights."""
    return MemoryBudget(
        parameters=shape.parameters,
        trainer_state=16 * shape.parameters,
        reference=4 * shape.parameters if reference else 0,
        sampler_weights=0,
        cache_per_sequence=context * shape.cache_bytes_per_token(4),
        sequences=sequences,
        logits=2 * 4 * context * shape.vocabulary,
    )


def sharded_memory_budget(shape: ModelShape, *, context: int, sequences: int, reference: bool, devices: int) -> MemoryBudget:
    """Training sharded over ``devices`` (FSDP, fp32 state), one bf16 sampler on each device, its cache beside it."""
    return MemoryBudget(
        parameters=shape.parameters,
        trainer_state=-(-16 * shape.parameters // devices),
        reference=-(-2 * shape.parameters // devices) if reference else 0,
        sampler_weights=2 * shape.parameters,
        cache_per_sequence=context * shape.cache_bytes_per_token(2),
        sequences=-(-sequences // devices),
        logits=2 * 4 * context * shape.vocabulary,
    )
