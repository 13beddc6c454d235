"""Which online algorithm a recipe means."""

from __future__ import annotations

from agentgym_cli.learn.experience import Algorithm
from agentgym_cli.learn.grpo import Grpo
from agentgym_cli.learn.ppo import Ppo
from agentgym_cli.learn.reinforce_pp import ReinforcePlusPlus
from agentgym_cli.learn.rloo import Rloo
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec, ReinforcePlusPlusSpec


def algorithm_of(spec: OnlineSpec) -> Algorithm:
    """The algorithm with these numbers."""
    if isinstance(spec, GrpoSpec):
        return Grpo(spec)
    if isinstance(spec, PpoSpec):
        return Ppo(spec)
    return ReinforcePlusPlus(spec) if isinstance(spec, ReinforcePlusPlusSpec) else Rloo()
