"""A model folder without a network that anybody computes, and the rehearsal's evaluation of it, for tests with a stand-in for vLLM's server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym_cli.verbs.home import claim_folder
from agentgym_cli.verbs.prepare import Prepared, prepare
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.request import PolicyChoice, Request
from tests.episode.chats import BYTES

CONFIG = {"model_type": "qwen2", "vocab_size": 400, "max_position_embeddings": 4096, "num_attention_heads": 2, "num_hidden_layers": 2}


def model_folder(place: Path, **changes: Any) -> Path:
    """Config, tokenizer, and a file in the place of weights; a change to None leaves a key out."""
    place.mkdir(parents=True)
    config = {key: value for key, value in {**CONFIG, **changes}.items() if value is not None}
    (place / "config.json").write_text(json.dumps(config))
    BYTES.save(str(place / "tokenizer.json"))
    (place / "model.safetensors").write_bytes(b"weights")
    return place


def request_of(model: Path, runs: Path, *overrides: str, checkpoint: Path | None = None) -> Request:
    """An evaluation of two tasks in the rehearsal's profile, in whatever stack the tests run."""
    words = ["profile=rehearsal", "engine.drift=warn", f"policy.model.path={json.dumps(str(model))}", *overrides]
    choice = PolicyChoice(checkpoint=checkpoint)
    return Request(target="textcraft_grpo.yaml", overrides=words, runs_dir=runs, database=runs.parent / "x.duckdb", policy=choice)


def evaluation_of(model: Path, runs: Path, *overrides: str) -> Prepared:
    """The same, with its folder made."""
    return claim_folder(prepare(request_of(model, runs, *overrides), verb="eval", progress=Silent()), Silent())
