"""Torch as a run wants it: its device, a fixed number of threads, and on the CPU only algorithms that give the same bits again."""

from __future__ import annotations

import torch

from agentgym_cli.errors import TrainerError
from agentgym_cli.recipe.schema.computing import EngineSpec


def settle(engine: EngineSpec) -> torch.device:
    """Set this process up, before its first tensor; returns the device to train and sample on.

    Raises TrainerError when the machine lacks the device, or products in the precision that the recipe asks for.
    """
    torch.set_num_threads(engine.threads)
    torch.use_deterministic_algorithms(engine.device == "cpu")
    if engine.device == "cuda" and not torch.cuda.is_available():
        raise TrainerError(
            f"engine.device: expected a GPU that torch {torch.__version__} sees, got none",
            "engine.device=cpu, or install the build of torch that is made for this GPU",
        )
    if engine.precision == "bfloat16" and not _multiplies_bfloat16(engine.device):
        raise TrainerError(
            f"engine.precision: expected float32, since this {'GPU' if engine.device == 'cuda' else 'CPU'} has no products in bfloat16 "
            "and would be slower with them, got bfloat16",
            "engine.precision=float32",
        )
    return torch.device(engine.device)


def _multiplies_bfloat16(device: str) -> bool:
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
