"""The learning signal: what a recipe pays for, and nothing for a world that failed."""

from __future__ import annotations

import pytest

from agentgym_cli.learn.rewards import signal_of
from agentgym_cli.recipe.schema.world import RewardSpec


@pytest.mark.parametrize(
    ("spec", "reward", "success", "signal"),
    [
        (RewardSpec(), 73.0, False, 73.0),
        (RewardSpec(scale=0.01), 73.0, False, 0.73),
        (RewardSpec(signal="success"), 0.4, True, 1.0),
        (RewardSpec(signal="success"), 73.0, False, 0.0),
        (RewardSpec(signal="success", scale=2.0), 100.0, True, 2.0),
    ],
)
def test_the_signal_is_the_return_or_success_times_its_scale(spec: RewardSpec, reward: float, success: bool, signal: float) -> None:
    assert signal_of(spec, reward=reward, success=success) == pytest.approx(signal)


@pytest.mark.parametrize("spec", [RewardSpec(), RewardSpec(signal="success")])
def test_promise_02_an_episode_without_a_return_has_no_signal(spec: RewardSpec) -> None:
    assert signal_of(spec, reward=None, success=False) is None
