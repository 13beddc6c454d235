"""Settings of an algorithm that contradict each other, or that nothing would read, are refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.resolve import resolve
from tests.recipe.builders import has, write_recipe

PPO = "train.algorithm={kind: ppo, critic_learning_rate: 1e-5, critic_warmup_steps: 20}"
SFT = "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 2}]}"
PLAIN = "train.algorithm={kind: reinforce_plus_plus}"


def complaint(folder: Path, *overrides: str) -> str:
    with pytest.raises(RecipeError) as caught:
        resolve(write_recipe(folder), overrides, survey=has())
    return str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (["train.algorithm.kl_place=reward"], "train.algorithm.kl_place: expected loss where kl_coefficient is 0 and there is no KL, got reward"),
        (["train.algorithm.kl_estimate=k2"], "train.algorithm.kl_estimate: expected k3 where kl_coefficient is 0 and there is no KL, got k2"),
        (["train.algorithm.clip_high=0.1"], "train.algorithm.clip_high: expected at least clip (0.2), got 0.1"),
        (
            ["train.algorithm={kind: reinforce_plus_plus, baseline: group}"],
            "train.algorithm.group_size: expected 2 or more with baseline group, got 1",
        ),
        (
            ["train.algorithm={kind: reinforce_plus_plus, baseline: group, group_size: 2, discount: 0.5}"],
            "train.algorithm.discount: expected 1 with baseline group, which knows whole episodes only, got 0.5",
        ),
        ([PPO], "train.algorithm.critic_warmup_steps: expected fewer than the 20 steps, since the policy stays as it is until then, got 20"),
        (["reward.credit=turn"], "reward.credit: expected episode with algorithm grpo, which compares whole episodes, got turn"),
        (
            [PLAIN, "reward.credit=turn", "reward.signal=success"],
            "reward.credit: expected episode where success alone is paid, since it is known at the end, got turn",
        ),
        ([SFT, "reward.turn_cost=0.1"], "reward.turn_cost: expected 0.0 with algorithm sft, which pays no token, got 0.1"),
        ([SFT, "reward.credit=turn"], "reward.credit: expected episode with algorithm sft, which pays no token, got turn"),
        ([SFT, "train.importance_cap=2"], "train.importance_cap: expected null with algorithm sft, which pays no token, got 2"),
        (["train.learning_rate=0"], "train.learning_rate: expected a number > 0, got 0"),
        (["train.importance_cap=0.5"], "train.importance_cap: expected null or a number >= 1, got 0.5"),
        (["train.algorithm.gae_lambda=0.9"], "train.algorithm.gae_lambda: expected one of"),
        (["train.algorithm.group_size=1"], "train.algorithm.group_size: expected an integer >= 2, got 1"),
    ],
)
def test_promise_08_a_setting_that_the_algorithm_does_not_use_is_refused(tmp_path: Path, overrides: list[str], text: str) -> None:
    assert text in complaint(tmp_path, *overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ["train.algorithm={kind: ppo, critic_learning_rate: 1e-5, critic_warmup_steps: 19}", "reward.credit=turn"],
        [PLAIN, "reward.credit=turn", "reward.signal=success", "reward.invalid_cost=0.1"],
        ["train.algorithm={kind: rloo, group_size: 2, kl_coefficient: 0.1, kl_place: reward, kl_estimate: k1}"],
        ["train.algorithm.clip_high=0.28", "train.algorithm.filter_zero_variance=true", "train.passes_per_step=2", "train.importance_cap=2"],
    ],
)
def test_settings_that_go_together_are_accepted(tmp_path: Path, overrides: list[str]) -> None:
    assert resolve(write_recipe(tmp_path), overrides, survey=has()).warnings == ()
