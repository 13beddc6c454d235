"""Model folders small enough for a test, with a chat template, and the recipes that name them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.episode.chats import BYTES, CHATML
from tests.recipe.builders import RECIPE, write_recipe

CONFIG = {
    "model_type": "qwen2",
    "hidden_act": "silu",
    "hidden_size": 16,
    "intermediate_size": 24,
    "max_position_embeddings": 4096,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "num_key_value_heads": 1,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "initializer_range": 0.3,
}


def write_model(folder: Path, source: str = CHATML, **config: object) -> Path:
    """A network of a few thousand numbers with byte-level tokens; its weights come from the run's seed."""
    folder.mkdir(parents=True, exist_ok=True)
    BYTES.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": source}))
    sizes = {"vocab_size": BYTES.get_vocab_size(), "eos_token_id": BYTES.token_to_id("<|im_end|>")}
    (folder / "config.json").write_text(json.dumps(CONFIG | sizes | config))
    return folder


def chat_recipe(folder: Path, source: str = CHATML, *, history: str = "exact", **config: object) -> str:
    """A recipe whose policy is the model in ``model`` beside it, by its chat template, without instructions."""
    said = f"prompt: {{system: none, turn_format: template, history: {history}, action_format: plain}}"
    text = RECIPE.replace("prompt: {}", said).replace("budgets: {}", "budgets: {response_tokens: 32, context_tokens: 1024}")
    path = write_recipe(folder, text.replace("{path: model}", "{path: model, weights: seed}"))
    write_model(folder / "model", source, **config)
    return path
