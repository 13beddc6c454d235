"""Every online algorithm finds the best policy of a bandit and of a chain of five states, with every seed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec, ReinforcePlusPlusSpec, RlooSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from tests.learn.tabular import TabularModel
from tests.learn.worlds import BANDIT, CHAIN, World

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ALGORITHMS: dict[str, OnlineSpec] = {
    "grpo": GrpoSpec(group_size=8),
    "grpo without std, token mean, filter": GrpoSpec(group_size=8, normalize_std=False, average="token", filter_zero_variance=True),
    "rloo": RlooSpec(group_size=8),
    "reinforce++": ReinforcePlusPlusSpec(group_size=8),
    "reinforce++ with baseline": ReinforcePlusPlusSpec(group_size=8, baseline="group"),
    "ppo": PpoSpec(group_size=8, critic_learning_rate=0.1, gae_lambda=0.9, discount=0.99),
}
WORLDS = {"bandit": BANDIT, "chain": CHAIN}
STEPS = 30


def taught(world: World, spec: OnlineSpec, seed: int) -> tuple[float, float]:
    """What the policy earns before and after."""
    table = [[0.0] * world.tokens for _ in range(world.tokens)]
    train = TrainSpec(steps=STEPS, tasks_per_step=3, learning_rate=0.4, algorithm=spec)
    trainer = OnlineTrainer(TabularModel(table), train, temperature=1.0, seed=seed)  # type: ignore[arg-type]
    draw = random.Random(seed)
    for step in range(1, STEPS + 1):
        present = trainer.model.table  # type: ignore[union-attr]
        groups = [[world.play(present, draw) for _ in range(spec.group_size)] for _ in range(train.tasks_per_step)]
        if not isinstance(spec, PpoSpec | ReinforcePlusPlusSpec):
            groups = [[replace(member, payments=None) for member in group] for group in groups]
        trainer.step(groups, step=step)
    return world.value(table), world.value(trainer.model.table)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("world", WORLDS)
def test_the_best_policy_is_found_with_three_seeds(world: str, name: str) -> None:
    for seed in (1, 2, 3):
        before, after = taught(WORLDS[world], ALGORITHMS[name], seed)
        assert before < 0.5 * WORLDS[world].best
        assert after > 0.95 * WORLDS[world].best, f"seed {seed}"
