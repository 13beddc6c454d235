"""What a network says of action tokens before a step changes it: numbers that stay fixed while the step learns. No gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.learn.batch import PIECE_TOKENS, Batch, Example, longest_first, pieces
from agentgym_cli.learn.update import Precision, action_scores, device_of


@torch.no_grad()
def logps(
    model: CausalModel, examples: Sequence[Example], *, temperature: float, pass_tokens: int = PIECE_TOKENS, precision: Precision = "float32"
) -> list[tuple[float, ...]]:
    """Log-probability of each action token of each example, nats, in the order of ``examples``."""

    def of(batch: Batch) -> Tensor:
        return action_scores(model, batch, temperature=temperature, precision=precision).logp

    return by_example(model, examples, of, pass_tokens=pass_tokens)


@torch.no_grad()
def by_example(network: nn.Module, examples: Sequence[Example], of: Callable[[Batch], Tensor], *, pass_tokens: int) -> list[tuple[float, ...]]:
    """``of`` (a number for each token, (B, T)) at the action tokens of each example, in the order of ``examples``, computed piece by piece."""
    device = device_of(network)
    rows: list[tuple[float, ...]] = []
    for piece in pieces(examples, tokens=pass_tokens):
        batch = piece.to(device)
        numbers = of(batch)
        rows += [tuple(row[mask].tolist()) for row, mask in zip(numbers, batch.action_mask, strict=True)]
    placed = dict(zip(longest_first(examples), rows, strict=True))
    return [placed[place] for place in range(len(examples))]
