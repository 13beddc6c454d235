"""What learning is paid in: the environment's return, or success alone. Knows no tensors."""

from __future__ import annotations

from agentgym_cli.recipe.schema.world import RewardSpec


def signal_of(spec: RewardSpec, *, reward: float | None, success: bool) -> float | None:
    """The learning signal of an episode.

    Args:
        reward: return by the dialect's rule; None when the episode has none (infra error or missing), which stays None: it is never a number.
        success: whether it counts as a success.
    """
    if reward is None:
        return None
    return spec.scale * (reward if spec.signal == "return" else float(success))
