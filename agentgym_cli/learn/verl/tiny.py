"""The model of a rehearsal: the recipe's architecture at a few thousand weights, from a seed, with the recipe's tokenizer or one of bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging

from agentgym_cli.episode.layouts import Layout
from agentgym_cli.errors import PolicyError

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "tie_word_embeddings": False,
}
"""A head of fewer than 32 numbers is refused by vLLM's attention on a CPU."""
KINDS = ("qwen2", "qwen3", "llama")
PADDING = "<|endoftext|>"


def make_tiny(place: Path, *, kind: str, tokenizer: Path | None, layout: Layout, context: int, seed: int) -> int:
    """Write a model's folder and return how many weights it has.

    Args:
        kind: ``model_type`` of the recipe's model.
        tokenizer: folder of the recipe's, None where it is not on this machine: then a token is a byte.
        layout: whose control tokens a tokenizer of bytes has.
        context: positions of the model.

    Raises:
        PolicyError: an architecture of another kind.
    """
    if kind not in KINDS:
        raise PolicyError(f"rehearsal: expected an architecture of {', '.join(KINDS)}, got {kind!r}", "rehearse with a model of one of them")
    place.mkdir(parents=True, exist_ok=True)
    end = _byte_tokenizer(place, layout) if tokenizer is None else _copied(tokenizer, place)
    words = Tokenizer.from_file(str(place / "tokenizer.json"))
    size = max(words.get_vocab(with_added_tokens=True).values()) + 1
    stop, padding = words.token_to_id(end), words.token_to_id(PADDING)
    padding = stop if padding is None else padding
    config = AutoConfig.for_model(
        kind, **SIZES, vocab_size=size, max_position_embeddings=context, bos_token_id=None, eos_token_id=stop, pad_token_id=padding
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)  # type: ignore[no-untyped-call]
    model.generation_config = GenerationConfig(eos_token_id=stop, pad_token_id=padding)  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model.save_pretrained(place)
    logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    return sum(weights.numel() for weights in model.parameters())


def _byte_tokenizer(place: Path, layout: Layout) -> str:
    """A token for each byte and for each control token; returns what ends an action."""
    words = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens([AddedToken(text, special=True) for text in dict.fromkeys([PADDING, *sorted(layout.control), layout.end])])
    words.save(str(place / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": layout.end, "pad_token": PADDING, "chat_template": _CHATML}
    (place / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return layout.end


def _copied(tokenizer: Path, place: Path) -> str:
    """The recipe's own files; returns what ends an action."""
    for file in tokenizer.iterdir():
        if (
            file.is_file()
            and not file.name.endswith((".safetensors", ".bin", ".gguf"))
            and file.name not in ("config.json", "generation_config.json")
        ):
            shutil.copyfile(file, place / file.name)
    settings = json.loads((place / "tokenizer_config.json").read_text(encoding="utf-8"))
    end = settings["eos_token"]
    return str(end["content"] if isinstance(end, dict) else end)


_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
