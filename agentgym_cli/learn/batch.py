"""Trajectories as padded tensors. Masks come from where tokens were sampled; nothing is rebuilt from text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.experience import PerToken

PIECE_TOKENS = 2048
"""Padded tokens of one forward pass: bounds memory, and small pieces stay in a CPU's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A trajectory and what is learned from it, by action token that can be scored."""

    trajectory: Trajectory
    advantage: float | PerToken
    """One number for all of them, or one for each."""
    old_logp: PerToken | None = None
    """Of the policy that ratios are taken to; None takes the sampler's."""
    reference_logp: PerToken | None = None
    """Of the frozen reference; None without one."""
    values: PerToken | None = None
    """Of the critic before the step; None without one."""
    targets: PerToken | None = None
    """What the critic is taught; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """B trajectories padded on the right to T tokens; all shapes (B, T), all numbers 0 where ``action_mask`` is False."""

    token_ids: Tensor
    """int64; 0 behind a trajectory's end, where nothing attends and nothing is scored."""
    action_mask: Tensor
    """bool; True where the policy sampled the token, its stop token included; False in padding."""
    sampled_logp: Tensor
    """float32, nats; of the sampler."""
    old_logp: Tensor
    """float32, nats; of the policy that ratios are taken to."""
    advantage: Tensor
    """float32."""
    reference_logp: Tensor
    """float32, nats; 0 everywhere without a reference."""
    values: Tensor
    """float32; 0 everywhere without a critic."""
    targets: Tensor
    """float32; 0 everywhere without a critic."""

    @property
    def action_tokens(self) -> int:
        """Number of True in ``action_mask``."""
        return int(self.action_mask.sum())

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


def with_action_tokens(examples: Sequence[Example]) -> list[Example]:
    """Those that have something to learn from: at least one action token behind a first token that predicts it."""
    return [example for example in examples if any(example.trajectory.action_mask[1:])]


def action_count(example: Example) -> int:
    """Action tokens that can be scored."""
    return sum(example.trajectory.action_mask[1:])


def pad(examples: Sequence[Example]) -> Batch:
    """One batch of all ``examples``, at least one; a first token cannot be scored and leaves the mask."""
    length = max(len(example.trajectory.token_ids) for example in examples)
    shape = (len(examples), length)
    token_ids = torch.zeros(shape, dtype=torch.int64)
    action_mask = torch.zeros(shape, dtype=torch.bool)
    sampled = torch.zeros(shape)
    for row, example in enumerate(examples):
        size = len(example.trajectory.token_ids)
        token_ids[row, :size] = torch.tensor(example.trajectory.token_ids)
        action_mask[row, 1:size] = torch.tensor(example.trajectory.action_mask[1:], dtype=torch.bool)
        sampled[row, :size] = torch.tensor(example.trajectory.logprobs)
    sampled = sampled.masked_fill(~action_mask, 0.0)
    old = [example.old_logp for example in examples]
    return Batch(
        token_ids=token_ids,
        action_mask=action_mask,
        sampled_logp=sampled,
        old_logp=sampled if None in old else spread(old, action_mask),
        advantage=spread([example.advantage for example in examples], action_mask),
        reference_logp=spread([example.reference_logp for example in examples], action_mask),
        values=spread([example.values for example in examples], action_mask),
        targets=spread([example.targets for example in examples], action_mask),
    )


def spread(rows: Sequence[float | PerToken | None], action_mask: Tensor) -> Tensor:
    """Numbers of action tokens where they belong, float32, (B, T). Raises ValueError where a row has not one for each of its action tokens."""
    placed = torch.zeros(action_mask.shape)
    for row, numbers in enumerate(rows):
        if isinstance(numbers, tuple):
            if len(numbers) != int(action_mask[row].sum()):
                raise ValueError(f"row {row}: expected a number for each of {int(action_mask[row].sum())} action tokens, got {len(numbers)}")
            placed[row, action_mask[row]] = torch.tensor(numbers)
        elif numbers is not None:
            placed[row, action_mask[row]] = numbers
    return placed


def pieces(examples: Sequence[Example], *, tokens: int = PIECE_TOKENS) -> list[Batch]:
    """Batches of at most ``tokens`` padded tokens (or one trajectory), longest first, so that little is padding."""
    ordered = longest_first(examples)
    made: list[Batch] = []
    while ordered:
        rows = max(1, tokens // len(examples[ordered[0]].trajectory.token_ids))
        made.append(pad([examples[place] for place in ordered[:rows]]))
        ordered = ordered[rows:]
    return made


def longest_first(examples: Sequence[Example]) -> list[int]:
    """The order in which ``pieces`` takes its examples."""
    return sorted(range(len(examples)), key=lambda place: -len(examples[place].trajectory.token_ids))
