"""The advantages of the local engine as a function of verl's."""

from __future__ import annotations

from typing import Any

import torch
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

from agentgym_cli.learn.verl.asked import LOOP
from agentgym_cli.learn.verl.credited import credited
from agentgym_cli.recipe.schema.algorithms import OnlineSpec


class Estimator:
    """What verl calls for advantages, with the numbers of one recipe."""

    def __init__(self, spec: OnlineSpec) -> None:
        self._spec = spec

    def __call__(self, token_level_rewards: torch.Tensor, response_mask: torch.Tensor, *, index: Any, config: Any = None, **_: Any) -> Any:
        """Advantages and returns, both (trajectories, tokens), 0 where the policy did not sample. verl's padding rows have no sampled token."""
        mask = response_mask.bool()
        real = [place for place in range(len(mask)) if mask[place].any()]
        rewards = [token_level_rewards[place][mask[place]].tolist() for place in real]
        found = credited(rewards, [str(index[place]) for place in real], self._spec)
        advantages = torch.zeros_like(token_level_rewards)
        for place, values in zip(real, found, strict=True):
            advantages[place][mask[place]] = torch.tensor(values, dtype=advantages.dtype)
        return advantages, advantages


def register(spec: OnlineSpec) -> None:
    """Make the advantages known to verl under our name."""
    ADV_ESTIMATOR_REGISTRY[LOOP] = Estimator(spec)
