"""The sampler against the trainer: how far apart their log-probabilities of the same sampled tokens are."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.batch import Example, pieces
from agentgym_cli.learn.update import action_scores, device_of


@torch.no_grad()
def largest_difference(model: CausalModel, trajectories: Sequence[Trajectory], *, temperature: float) -> tuple[float, int]:
    """Largest |sampler - trainer| log-probability of an action token, in nats, and how many there are."""
    largest, count = 0.0, 0
    for piece in pieces([Example(trajectory=trajectory, advantage=0.0) for trajectory in trajectories]):
        batch = piece.to(device_of(model))
        logp = action_scores(model, batch, temperature=temperature).logp
        largest = max(largest, float((logp - batch.sampled_logp)[batch.action_mask].abs().max()))
        count += batch.action_tokens
    return largest, count
