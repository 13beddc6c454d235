"""Advantages of a group, by hand."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.learn.advantages import group_advantages, least_scored


def test_two_of_four_successes_by_hand():
    # mean 1/2; unbiased variance (4 * 1/4) / 3 = 1/3, std 0.57735
    found = group_advantages([1.0, 0.0, 0.0, 1.0], normalize_std=True)
    high = 0.5 / (1 / math.sqrt(3) + 1e-6)
    assert found.values == pytest.approx((high, -high, -high, high), rel=1e-12)
    assert (found.scored, found.dropped, found.zero_variance) == (4, False, False)


def test_without_std_an_advantage_is_the_distance_from_the_mean():
    assert group_advantages([3.0, 0.0, 0.0], normalize_std=False).values == (2.0, -1.0, -1.0)


def test_promise_02_an_unscored_member_is_neither_in_the_mean_nor_in_the_spread():
    with_failure = group_advantages([1.0, None, 0.0, 0.0], normalize_std=True)
    without = group_advantages([1.0, 0.0, 0.0], normalize_std=True)
    assert tuple(value for value in with_failure.values if value is not None) == without.values
    assert with_failure.values[1] is None
    assert with_failure.scored == 3


@pytest.mark.parametrize(("size", "least"), [(2, 2), (3, 2), (4, 2), (5, 3), (6, 3), (8, 4), (9, 5), (16, 8)])
def test_a_group_needs_half_its_members_and_two(size, least):
    assert least_scored(size) == least
    enough = [1.0, *[0.0] * (least - 1), *[None] * (size - least)]
    assert not group_advantages(enough, normalize_std=True).dropped
    assert group_advantages([*enough[: least - 1], *[None] * (size - least + 1)], normalize_std=True).dropped


def test_promise_02_a_group_without_any_score_has_no_advantages():
    found = group_advantages([None] * 8, normalize_std=True)
    assert found.values == (None,) * 8
    assert (found.scored, found.dropped, found.zero_variance) == (0, True, False)


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.1, -3.7])
def test_equal_rewards_give_advantages_of_exactly_zero(reward):
    found = group_advantages([reward, reward, None, reward], normalize_std=True)
    assert found.values == (0.0, 0.0, None, 0.0)
    assert found.zero_variance
    assert not found.dropped


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=16).filter(lambda rewards: max(rewards) - min(rewards) > 1e-3))
def test_advantages_are_standard_scores_in_the_order_of_rewards(rewards: list[float]):
    values = [value for value in group_advantages(rewards, normalize_std=True).values if value is not None]
    spread = statistics.stdev(rewards)
    assert sum(values) == pytest.approx(0.0, abs=1e-9)
    assert statistics.stdev(values) == pytest.approx(spread / (spread + 1e-6), rel=1e-9)
    by_reward = [value for _, value in sorted(zip(rewards, values, strict=True))]
    assert by_reward == sorted(values)
