"""A GGUF file as a model folder of float32 weights. Reads it through transformers and gguf; knows no run."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import struct
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from agentgym_cli.errors import LockError, PolicyError, TrainerError
from agentgym_cli.learn.model import WEIGHTS

_MAGIC = b"GGUF"
_NEEDED = ("gguf", "accelerate")


def convert_gguf(file: Path, folder: Path) -> int:
    """Write ``folder``, whole or not at all, with config, tokenizer, chat template and weights; returns the number of parameters.

    Raises:
        LockError: a package that reads the format is not installed.
        PolicyError: no GGUF file, or one of a network that transformers does not read.
        TrainerError: the folder is there, or cannot be written.
    """
    for package in _NEEDED:
        if importlib.util.find_spec(package) is None:
            raise LockError(f"{file}: expected the package {package} to read it, got none", f"pip install {' '.join(_NEEDED)}")
    if folder.exists():
        raise TrainerError(f"{folder}: expected a folder that is not there yet, got one that is", "name another one with -o DIR")
    _refuse_other_files(file)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        parameters = _write(file, aside)
        aside.rename(folder)
    except (ValueError, KeyError, RuntimeError, NotImplementedError, struct.error) as err:
        raise PolicyError(f"{file}: expected a network that transformers reads, got {type(err).__name__}: {str(err)[:200]}") from err
    except OSError as err:
        raise TrainerError(f"{folder}: cannot write the model: {err.strerror or str(err)[:200]}", "free some space, or name another place") from err
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return parameters


def _refuse_other_files(file: Path) -> None:
    try:
        with file.open("rb") as data:
            begins = data.read(len(_MAGIC))
    except OSError as err:
        raise PolicyError(f"{file}: cannot read it: {err.strerror or err}", "name a file that is there") from err
    if begins != _MAGIC:
        raise PolicyError(f"{file}: expected a GGUF file, got one that begins with {begins!r}")


def _write(file: Path, folder: Path) -> int:
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    config = {key: value for key, value in model.config.to_dict().items() if key != "quantization_config"}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True, default=str) + "\n", encoding="utf-8")
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items() if name not in tied}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    return sum(tensor.numel() for tensor in weights.values())
