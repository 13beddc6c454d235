"""A policy that is a table: the logits of the next token given the one before it. Goes through the trainer's own code, and by hand in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agentgym_cli.episode.types import Trajectory

Table = list[list[float]]
"""``table[token][before]``, as a linear layer keeps it."""


@dataclass(frozen=True, slots=True)
class _Output:
    last_hidden_state: Tensor


class _Body(nn.Module):
    """The token before, one-hot, in whatever type a default tensor has."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("identity", torch.eye(size))

    def forward(self, input_ids: Tensor, use_cache: bool) -> _Output:
        assert not use_cache
        assert isinstance(self.identity, Tensor)
        return _Output(self.identity[input_ids])


class TabularModel(nn.Module):
    """What the trainer asks of a network, and nothing else."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.model = _Body(len(table))
        self.lm_head = nn.Linear(len(table), len(table), bias=False)
        with torch.no_grad():
            self.lm_head.weight.copy_(torch.tensor(table))

    @property
    def table(self) -> Table:
        """The present logits."""
        return list(self.lm_head.weight.tolist())


@contextmanager
def double_precision() -> Iterator[None]:
    """New tensors are float64 inside."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def probabilities(table: Table, before: int, temperature: float = 1.0) -> list[float]:
    """Of each next token, by plain arithmetic."""
    logits = [row[before] / temperature for row in table]
    highest = max(logits)
    weights = [math.exp(logit - highest) for logit in logits]
    return [weight / math.fsum(weights) for weight in weights]


def trajectory_of(token_ids: Sequence[int], spoken: str, logprobs: Sequence[float]) -> Trajectory:
    """``spoken`` has an ``a`` for each sampled token and an ``o`` for each observed one; ``logprobs`` are of the sampled ones, in order."""
    left = iter(logprobs)
    return Trajectory(
        token_ids=tuple(token_ids),
        action_mask=tuple(each == "a" for each in spoken),
        logprobs=tuple(next(left) if each == "a" else 0.0 for each in spoken),
        policy_version=0,
    )
