"""Members of a group of which verl has no trajectory had no score: they are in no baseline, and a group with too few of the others learns nothing."""

from __future__ import annotations

import math

import pytest

from agentgym_cli.learn.verl.credited import credited
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, ReinforcePlusPlusSpec, RlooSpec

GRPO = GrpoSpec(group_size=4)


def last(reward: float, tokens: int) -> list[float]:
    """Rewards of a trajectory that is paid on its last action token."""
    return [0.0] * (tokens - 1) + [reward]


def test_promise_02_a_group_of_which_all_failed_is_in_no_number() -> None:
    # Group b has none of four; nothing of it reaches verl.
    found = credited([last(1.0, 2), last(0.0, 1), last(0.0, 3), last(1.0, 1)], ["a"] * 4, GRPO)
    # Mean 1/2, unbiased standard deviation sqrt(1/3).
    high = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    assert found == [pytest.approx((high,) * 2), pytest.approx((-high,)), pytest.approx((-high,) * 3), pytest.approx((high,))]


def test_promise_02_one_that_failed_of_four_leaves_the_baseline_to_the_three() -> None:
    found = credited([last(1.0, 1), last(0.0, 1), last(0.0, 1)], ["a"] * 3, GRPO)
    # Mean 1/3, squares 4/9 + 1/9 + 1/9 = 6/9, over 2: standard deviation sqrt(1/3).
    std = math.sqrt(1 / 3) + 1e-6
    assert found == [pytest.approx(((2 / 3) / std,)), pytest.approx(((-1 / 3) / std,)), pytest.approx(((-1 / 3) / std,))]


def test_promise_02_three_that_failed_of_four_leave_too_few_for_a_baseline() -> None:
    # verl's own GRPO gives a group of one mean 0 and standard deviation 1, and so learns from the raw reward.
    found = credited([last(1.0, 2), last(1.0, 1), last(0.0, 1), last(1.0, 1), last(0.0, 1)], ["alone", "b", "b", "b", "b"], GRPO)
    assert found[0] == (0.0, 0.0)
    assert all(values != (0.0,) for values in found[1:])


def test_groups_may_come_in_any_order() -> None:
    rewards, groups = [last(float(n % 2), 1 + n % 3) for n in range(8)], ["a", "b", "b", "a", "a", "b", "a", "b"]
    found = credited(rewards, groups, RlooSpec(group_size=4))
    order = [0, 3, 4, 6, 1, 2, 5, 7]
    assert [found[place] for place in order] == credited(
        [rewards[place] for place in order], [groups[place] for place in order], RlooSpec(group_size=4)
    )


def test_what_is_whitened_over_the_step_has_mean_0_over_action_tokens() -> None:
    spec = ReinforcePlusPlusSpec(group_size=2, discount=0.5)
    found = credited([[0.0, 1.0], [2.0], [0.5, 0.0, 1.0]], ["a", "a", "b"], spec)
    every = [value for values in found for value in values]
    assert sum(every) == pytest.approx(0.0, abs=1e-9)
    # Discounted returns by hand: 0.5, 1; 2; 0.5 + 0.25, 0.5, 1.
    returns = [0.5, 1.0, 2.0, 0.75, 0.5, 1.0]
    mean = sum(returns) / 6
    std = math.sqrt(sum((each - mean) ** 2 for each in returns) / 5)
    assert every == pytest.approx([(each - mean) / (std + 1e-6) for each in returns])
