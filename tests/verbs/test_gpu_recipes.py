"""Every profile for GPUs of 80 GB fits them with the stated error to spare, by the model, and its batches can be shared out."""

from __future__ import annotations

import pytest

from agentgym_cli.capacity.gpus import GIB
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.capacity import CapacityAnswer, Question, estimate_capacity

PROFILES = {"gpu": 8, "gpu4": 4, "gpu2": 2, "gpu1": 1}
RECIPES = ("textcraft_grpo", "textcraft_ppo", "textcraft_rloo", "textcraft_reinforce_pp")


def judged(recipe: str, profile: str) -> CapacityAnswer:
    return estimate_capacity(Question(recipe=f"recipes/{recipe}.yaml", overrides=[f"profile={profile}"], gpu="h100-80g"))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_profile_fits_its_gpus_surely(recipe: str, profile: str) -> None:
    found = judged(recipe, profile)
    assert found.main.plan.layout.devices == PROFILES[profile]
    assert found.main.verdict.surely, (found.main.verdict.peak / GIB, found.main.verdict.lacking)
    # a copy of the policy holds at least 40 episodes at their longest: the 64 of 4 or 2 GPUs are rarely so long
    assert found.main.verdict.sequences >= 40 * found.main.plan.layout.replicas


def test_four_gpus_hold_the_whole_training_state_by_hand() -> None:
    verdict = judged("textcraft_grpo", "gpu4").main.verdict
    # 16 bytes of 7,615,616,512 numbers over 4; whole: embedding of 152,064 x 3,584 and two layers of 233,057,792 in 2 bytes, the embedding's
    # gradients in 4; a token 28 x 2 x 3,584 bytes of inputs and 2 x 225,280 of one layer, and 16 bytes a logit; driver 1.5 GiB
    gathered = 2 * (152_064 * 3_584 + 2 * 233_057_792) + 4 * 152_064 * 3_584
    a_pass = 10_752 * (28 * 2 * 3_584 + 2 * 225_280 + 16 * 152_064)
    assert verdict.peak == 4 * 7_615_616_512 + gathered + a_pass + 3 * GIB // 2
    assert verdict.peak * 1.2 < verdict.memory < verdict.peak * 1.25


def test_two_gpus_keep_the_same_experiment_in_the_machines_memory() -> None:
    found = judged("textcraft_grpo", "gpu2").main
    assert found.verdict.training is not None
    # 16 bytes of the policy and 4 of the reference, over 2
    assert (found.verdict.training.resident, found.verdict.training.host) == (0, 10 * 7_615_616_512)
    same = [resolve("recipes/textcraft_grpo.yaml", [f"profile={profile}"], only_shown=True).run.train for profile in ("gpu", "gpu4", "gpu2")]
    assert same[0] == same[1] == same[2]


def test_one_gpu_trains_adapters() -> None:
    found = judged("textcraft_grpo", "gpu1").main
    assert found.plan.work is not None and found.verdict.training is not None
    # rank 32 beside the projections of queries and values of 28 layers: 3,584 + 3,584 and 3,584 + 512
    assert found.plan.work.adapters == 28 * 32 * (7_168 + 4_096)
    assert found.verdict.training.weights == 4 * (7_615_616_512 + found.plan.work.adapters)
    assert found.verdict.training.host == 0
