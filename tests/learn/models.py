"""Builders for tests of the local engine: a tiny model and trajectories."""

from __future__ import annotations

from typing import Literal

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.recipe.schema.algorithms import GrpoSpec
from agentgym_cli.recipe.schema.learning import TrainSpec

VOCABULARY = 13


def tiny_model(seed: int = 0, *, kv_heads: int = 1) -> Qwen2ForCausalLM:
    """Two layers, 16 wide; weights large enough that nothing is uniform."""
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=kv_heads,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    torch.manual_seed(seed)
    return Qwen2ForCausalLM(config).eval()


def tiny_llama(seed: int = 0, *, kv_heads: int = 1) -> LlamaForCausalLM:
    """The same sizes without biases."""
    config = LlamaConfig(**{key: value for key, value in tiny_model(kv_heads=kv_heads).config.to_diff_dict().items() if key != "model_type"})
    torch.manual_seed(seed)
    return LlamaForCausalLM(config).eval()


def trajectory(spoken: str, *, offset: int = 0, logprob: float = -1.0) -> Trajectory:
    """One token for each character of ``spoken``: ``o`` observed, ``a`` sampled. Ids count up from ``offset``."""
    mask = tuple(character == "a" for character in spoken)
    return Trajectory(
        token_ids=tuple((offset + 3 * place + place * place) % VOCABULARY for place in range(len(spoken))),
        action_mask=mask,
        logprobs=tuple(logprob if sampled else 0.0 for sampled in mask),
        policy_version=0,
    )


def train_spec(
    *,
    learning_rate: float = 1e-2,
    updates: int = 1,
    kl: float = 0.0,
    entropy: float = 0.0,
    clip: float = 0.2,
    max_norm: float = 1e9,
    average: Literal["episode", "token"] = "token",
) -> TrainSpec:
    """A train section with groups of four."""
    algorithm = GrpoSpec(group_size=4, average=average, clip=clip, kl_coefficient=kl, entropy_coefficient=entropy)
    return TrainSpec(
        steps=3, tasks_per_step=2, learning_rate=learning_rate, algorithm=algorithm, updates_per_step=updates, max_gradient_norm=max_norm
    )


def weights_of(model: Qwen2ForCausalLM) -> dict[str, torch.Tensor]:
    """A copy of all parameters."""
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def logp_by_hand(model: Qwen2ForCausalLM, item: Trajectory, temperature: float = 1.0) -> list[float]:
    """Log-probability of every action token of one unpadded trajectory, from the model's own logits."""
    with torch.no_grad():
        logits = model(torch.tensor([item.token_ids])).logits[0] / temperature
    each = logits - logits.exp().sum(-1, keepdim=True).log()
    return [float(each[place - 1, item.token_ids[place]]) for place in range(1, len(item.token_ids)) if item.action_mask[place]]
