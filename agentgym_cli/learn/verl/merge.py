"""A checkpoint of verl's as a model folder, by verl's own merger, in a process of its own; adapters are merged into the model's weights."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.model import WEIGHTS
from agentgym_cli.recipe.resolve import whole_environment

LONGEST_SECONDS = 3600.0
_WRAPPED, _DOWN, _UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
ADAPTERS = "lora_adapter"
"""Folder in which the merger puts adapters, beside the model without them."""
_TOKENIZER = Path("huggingface/tokenizer.json")
"""Of a checkpoint, beside its shards."""
_ANOTHER = "agentgym export RUN --step N takes another checkpoint"


def merge(actor: Path, folder: Path, *, variables: Mapping[str, str]) -> None:
    """Merge the shards in ``actor`` into ``folder``: config, tokenizer and weights, which the merger rounds to bfloat16. Raises TrainerError.

    A checkpoint without its tokenizer is refused: the merger would make up one that has no words.
    Adapters (arXiv 2106.09685) become part of the weights: W + (alpha / rank) * B A.
    """
    if not (actor / _TOKENIZER).is_file():
        raise TrainerError(f"{actor}: expected the checkpoint's tokenizer, {_TOKENIZER}, got none", _ANOTHER)
    words = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", str(actor), "--target_dir", str(folder)]
    try:
        done = subprocess.run(
            words, env={**whole_environment(), **variables}, capture_output=True, text=True, errors="replace", timeout=LONGEST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise TrainerError(f"{actor}: expected verl's merger to end within {LONGEST_SECONDS:.0f} s, got no end") from err
    if done.returncode != 0:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "nothing")
        raise TrainerError(f"{actor}: expected verl's merger to succeed, got status {done.returncode}: {last[:300]}", _ANOTHER)
    if (folder / ADAPTERS).is_dir():
        fold_adapters(folder)


def fold_adapters(folder: Path) -> None:
    """Add the adapters that the merger left beside the weights to them, computed in float32. Raises TrainerError for what fits no weight."""
    weights, adapters = load_file(folder / WEIGHTS), load_file(folder / ADAPTERS / "adapter_model.safetensors")
    said = json.loads((folder / ADAPTERS / "adapter_config.json").read_text(encoding="utf-8"))
    scale = said["lora_alpha"] / said["r"]
    down = {name.removesuffix(_DOWN): tensor for name, tensor in adapters.items() if name.endswith(_DOWN)}
    for place, narrow in down.items():
        name = f"{place.removeprefix(_WRAPPED)}.weight"
        wide = adapters.get(f"{place}{_UP}")
        if name not in weights or wide is None or scale == 0:
            raise TrainerError(f"{folder}: expected adapters of the model's own layers and their scale, got {place} with scale {scale:g}")
        weight = weights[name]
        weights[name] = (weight.float() + scale * (wide.float() @ narrow.float())).to(weight.dtype)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    shutil.rmtree(folder / ADAPTERS)


def parameters_of(weights: Path) -> int:
    """Numbers in a safetensors file, from its header alone."""
    with weights.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(_size(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def _size(shape: list[int]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size
