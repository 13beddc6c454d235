"""The trained model: a Qwen2 or Llama network from a folder, made from a seed or read from safetensors. Knows no loss and no episode."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from agentgym_cli.episode.architecture import read_architecture
from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.errors import PolicyError

WEIGHTS = "model.safetensors"
CPU = torch.device("cpu")


def build_model(folder: Path, *, seed: int | None, vocabulary: int, context: int, device: torch.device = CPU, recompute: bool = False) -> CausalModel:
    """A float32 model of ``folder``/config.json.

    Args:
        seed: makes the weights; None reads ``folder``/model.safetensors.
        vocabulary: number of token ids of the tokenizer, which the model must cover.
        context: tokens of context that episodes may use, which the model must allow.
        device: where its weights go.
        recompute: whether activations are computed again on the way back.

    Raises PolicyError when the folder, the tokenizer and the budgets do not fit each other.
    """
    config = _config(folder)
    if not vocabulary <= config.vocab_size:
        raise PolicyError(f"{folder}/config.json vocab_size: expected at least the tokenizer's {vocabulary}, got {config.vocab_size}")
    if not context <= config.max_position_embeddings:
        raise PolicyError(
            f"{folder}/config.json max_position_embeddings: expected at least the {context} tokens of budgets.context_tokens, "
            f"got {config.max_position_embeddings}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0 if seed is None else seed)
        model: CausalModel = LlamaForCausalLM(config) if isinstance(config, LlamaConfig) else Qwen2ForCausalLM(config)
    model.train(False)
    if seed is None:
        load_weights(model, folder / WEIGHTS)
    nn.Module.to(model, device)
    if recompute:
        recompute_activations(model)
    return model


def recompute_activations(model: CausalModel) -> None:
    """Keep only what enters each layer for the way back, and compute its inside again there. Changes no number.

    A layer does so while it says that it is being trained; what is inside it does not say so, and drops nothing out.
    """
    for layer in model.model.layers:
        layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.training = True


def adapter_names(model: nn.Module) -> frozenset[str]:
    """Names of the parameters of low-rank adapters; empty for a model without."""
    return frozenset(name for name, _ in model.named_parameters() if ".lora_A." in name or ".lora_B." in name)


def load_weights(model: CausalModel, path: Path) -> None:
    """Read safetensors into ``model``: of a model with adapters theirs alone; a tied head may be left out.

    Raises PolicyError on a file that is not of this model.
    """
    try:
        tensors = load_file(path)
    except (OSError, ValueError, SafetensorError) as err:
        raise PolicyError(f"{path}: expected weights as safetensors, got {type(err).__name__}: {str(err)[:200]}") from err
    try:
        missing, unexpected = model.load_state_dict(tensors, strict=False)
    except RuntimeError as err:
        raise PolicyError(f"{path}: expected tensors of the shapes of config.json, got {str(err)[:300]}") from err
    adapters = adapter_names(model)
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    lacking = set(missing) & adapters if adapters else set(missing) - tied
    if unexpected or lacking:
        whose = "the adapters of train.lora" if adapters else "the tensors of config.json"
        raise PolicyError(f"{path}: expected {whose}, got missing {sorted(lacking)[:3]}, unknown {unexpected[:3]}")


def _config(folder: Path) -> Qwen2Config | LlamaConfig:
    found = read_architecture(folder)
    made: Qwen2Config | LlamaConfig = (LlamaConfig if found.kind == "llama" else Qwen2Config).from_dict(dict(found.settings))
    return made
