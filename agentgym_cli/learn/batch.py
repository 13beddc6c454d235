"""Trajectories as padded tensors. Masks come from where tokens were sampled; nothing is rebuilt from text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentgym_cli.episode.types import Trajectory

PIECE_TOKENS = 2048
"""Padded tokens of one forward pass: bounds memory, and small pieces stay in a CPU's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A trajectory and the advantage of each of its action tokens."""

    trajectory: Trajectory
    advantage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """B trajectories padded on the right to T tokens; all shapes (B, T)."""

    token_ids: Tensor
    """int64; 0 behind a trajectory's end, where nothing attends and nothing is scored."""
    action_mask: Tensor
    """bool; True where the policy sampled the token, its stop token included; False in padding."""
    old_logp: Tensor
    """float32, nats; 0 where ``action_mask`` is False."""
    advantage: Tensor
    """float32; 0 where ``action_mask`` is False."""

    @property
    def action_tokens(self) -> int:
        """Number of True in ``action_mask``."""
        return int(self.action_mask.sum())


def with_action_tokens(examples: Sequence[Example]) -> list[Example]:
    """Those that have something to learn from: at least one action token behind a first token that predicts it."""
    return [example for example in examples if any(example.trajectory.action_mask[1:])]


def pad(examples: Sequence[Example]) -> Batch:
    """One batch of all ``examples``, at least one; a first token cannot be scored and leaves the mask."""
    length = max(len(example.trajectory.token_ids) for example in examples)
    shape = (len(examples), length)
    token_ids = torch.zeros(shape, dtype=torch.int64)
    action_mask = torch.zeros(shape, dtype=torch.bool)
    old_logp, advantage = torch.zeros(shape), torch.zeros(shape)
    for row, example in enumerate(examples):
        size = len(example.trajectory.token_ids)
        token_ids[row, :size] = torch.tensor(example.trajectory.token_ids)
        action_mask[row, 1:size] = torch.tensor(example.trajectory.action_mask[1:], dtype=torch.bool)
        old_logp[row, :size] = torch.tensor(example.trajectory.logprobs)
        advantage[row, :size] = example.advantage
    return Batch(
        token_ids=token_ids,
        action_mask=action_mask,
        old_logp=old_logp.masked_fill(~action_mask, 0.0),
        advantage=advantage.masked_fill(~action_mask, 0.0),
    )


def pieces(examples: Sequence[Example], *, tokens: int = PIECE_TOKENS) -> list[Batch]:
    """Batches of at most ``tokens`` padded tokens (or one trajectory), longest first, so that little is padding."""
    ordered = sorted(examples, key=lambda example: -len(example.trajectory.token_ids))
    made: list[Batch] = []
    while ordered:
        rows = max(1, tokens // len(ordered[0].trajectory.token_ids))
        made.append(pad(ordered[:rows]))
        ordered = ordered[rows:]
    return made
