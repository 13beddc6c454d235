"""A checkpoint of verl's as a model folder, by verl's own merger, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from agentgym_cli.errors import TrainerError
from agentgym_cli.recipe.resolve import whole_environment

LONGEST_SECONDS = 3600.0


def merge(actor: Path, folder: Path, *, variables: Mapping[str, str]) -> None:
    """Merge the shards in ``actor`` into ``folder``: config, tokenizer and weights, which the merger rounds to bfloat16. Raises TrainerError."""
    words = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp", "--local_dir", str(actor), "--target_dir", str(folder)]
    try:
        done = subprocess.run(
            words, env={**whole_environment(), **variables}, capture_output=True, text=True, errors="replace", timeout=LONGEST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise TrainerError(f"{actor}: expected verl's merger to end within {LONGEST_SECONDS:.0f} s, got no end") from err
    if done.returncode != 0:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "nothing")
        raise TrainerError(f"{actor}: expected verl's merger to succeed, got status {done.returncode}: {last[:300]}")


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
