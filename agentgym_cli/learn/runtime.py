"""Torch as a run wants it: a fixed number of threads, and only algorithms that give the same bits again."""

from __future__ import annotations

import torch


def settle(threads: int) -> None:
    """Set both for this process; call it before the first tensor."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
