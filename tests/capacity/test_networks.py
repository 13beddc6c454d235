"""Parameters counted from a configuration against the networks that transformers builds of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from agentgym_cli.capacity.model_config import read_shape

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("head_dim", [{}, {"head_dim": 24}], ids=["divided", "given"])
def test_transformers_counts_the_same(tmp_path: Path, family: str, biased: bool, tied: bool, head_dim: dict[str, int]) -> None:
    sizes = {
        "hidden_size": 96,
        "intermediate_size": 160,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "vocab_size": 77,
    }
    flags = {"attention_bias": biased, "mlp_bias": biased, "tie_word_embeddings": tied}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": family, **head_dim, **sizes, **flags}))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path))
    assert read_shape(config).parameters == sum(parameter.numel() for parameter in model.parameters())
