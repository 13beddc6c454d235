"""What each algorithm makes of a ragged step of several turns with a member missing, by hand."""

from __future__ import annotations

import math

import pytest

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.advantages import generalized_advantages, leave_one_out, returns_to_go, whitened
from agentgym_cli.learn.experience import Credit, Groups, Member, Paid, token_rewards
from agentgym_cli.learn.grpo import Grpo
from agentgym_cli.learn.ppo import Ppo
from agentgym_cli.learn.reinforce_pp import ReinforcePlusPlus
from agentgym_cli.learn.rloo import Rloo
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, PpoSpec, ReinforcePlusPlusSpec


def trajectory(spoken: str) -> Trajectory:
    """``o`` is an observed token, ``a`` a sampled one."""
    mask = tuple(each == "a" for each in spoken)
    return Trajectory(token_ids=(0,) * len(spoken), action_mask=mask, logprobs=(0.0,) * len(spoken), policy_version=0)


RAGGED: Groups = [
    [Paid(total=1.0, rewards=(0.0, 1.0)), Paid(total=0.0, rewards=(0.0, 0.0, 0.0)), None, Paid(total=0.5, rewards=(0.5,))],
    [Paid(total=2.0, rewards=(2.0,)), Paid(total=2.0, rewards=(0.0, 2.0)), Paid(total=2.0, rewards=()), None],
]


def given(credit: Credit) -> list[list[object]]:
    return [[None if each is None else each.advantage for each in row] for row in credit.members]


def test_grpo_by_hand():
    # 1, 0, 1/2: mean 1/2, unbiased variance (1/4 + 1/4 + 0) / 2 = 1/4, std 1/2
    step = 0.5 / (0.5 + 1e-6)
    credit = Grpo(GrpoSpec(group_size=4)).credit(RAGGED)
    assert given(credit) == [[pytest.approx(step), pytest.approx(-step), None, 0.0], [0.0, 0.0, 0.0, None]]
    assert (credit.dropped, credit.zero_variance) == (0, 1)


def test_a_filtered_group_without_spread_takes_no_part_and_is_still_counted():
    credit = Grpo(GrpoSpec(group_size=4, normalize_std=False, filter_zero_variance=True)).credit(RAGGED)
    assert given(credit) == [[0.5, -0.5, None, 0.0], [None] * 4]
    assert credit.zero_variance == 1


def test_rloo_by_hand():
    # against the others of three: 1 - (0 + 1/2) / 2, 0 - (1 + 1/2) / 2, 1/2 - (1 + 0) / 2
    assert given(Rloo().credit(RAGGED)) == [[pytest.approx(0.75), pytest.approx(-0.75), None, pytest.approx(0.0)], [0.0, 0.0, 0.0, None]]


def test_promise_02_a_group_with_too_few_scored_members_gives_nobody_credit():
    few: Groups = [[Paid(total=1.0, rewards=(1.0,)), None, None, None]]
    for algorithm in (Grpo(GrpoSpec(group_size=4)), Rloo(), ReinforcePlusPlus(ReinforcePlusPlusSpec(group_size=4, baseline="group"))):
        credit = algorithm.credit(few)
        assert given(credit) == [[None] * 4]
        assert credit.dropped == 1


def test_an_algorithm_without_a_group_baseline_learns_from_a_lone_member():
    lone: Groups = [[Paid(total=1.0, rewards=(1.0,), values=(0.25,)), None]]
    assert given(ReinforcePlusPlus(ReinforcePlusPlusSpec()).credit(lone)) == [[(0.0,), None]]
    assert given(Ppo(PpoSpec(critic_learning_rate=1.0, whiten=False)).credit(lone)) == [[(0.75,), None]]


def test_reinforce_plus_plus_by_hand():
    # Returns to go at discount 1/2: (1/2, 1), (0, 0, 0), (1/2) and (2), (1, 2), (): nine numbers, sum 7, mean 7/9
    numbers = [0.5, 1.0, 0.0, 0.0, 0.0, 0.5, 2.0, 1.0, 2.0]
    std = math.sqrt(sum((each - 7 / 9) ** 2 for each in numbers) / 8)
    white = [pytest.approx((each - 7 / 9) / (std + 1e-6)) for each in numbers]
    credit = ReinforcePlusPlus(ReinforcePlusPlusSpec(group_size=4, discount=0.5)).credit(RAGGED)
    assert given(credit) == [[tuple(white[:2]), tuple(white[2:5]), None, (white[5],)], [(white[6],), tuple(white[7:9]), (), None]]
    assert (credit.dropped, credit.zero_variance) == (0, None)


def test_reinforce_plus_plus_with_a_group_baseline_by_hand():
    # 1/2 twice, -1/2 three times, 0 once; 0 three times: nine tokens, sum -1/2
    numbers = [0.5, 0.5, -0.5, -0.5, -0.5, 0.0, 0.0, 0.0, 0.0]
    std = math.sqrt(sum((each + 1 / 18) ** 2 for each in numbers) / 8)
    white = [pytest.approx((each + 1 / 18) / (std + 1e-6)) for each in numbers]
    credit = ReinforcePlusPlus(ReinforcePlusPlusSpec(group_size=4, baseline="group")).credit(RAGGED)
    assert given(credit) == [[tuple(white[:2]), tuple(white[2:5]), None, (white[5],)], [(white[6],), tuple(white[7:9]), (), None]]
    assert credit.zero_variance == 1


def test_ppo_by_hand():
    # rewards 0, 1 and values 1/2, 1/4 at discount 1/2, lambda 1/2: d_2 = 1 - 1/4, d_1 = 0 + 1/8 - 1/2; A_2 = 3/4, A_1 = -3/8 + 3/16
    groups: Groups = [[Paid(total=1.0, rewards=(0.0, 1.0), values=(0.5, 0.25))]]
    credit = Ppo(PpoSpec(critic_learning_rate=1.0, discount=0.5, gae_lambda=0.5, whiten=False)).credit(groups)
    member = credit.members[0][0]
    assert member is not None
    assert member.advantage == pytest.approx((-3 / 16, 3 / 4))
    assert member.targets == pytest.approx((5 / 16, 1.0))


def test_whitening_moves_advantages_and_not_the_targets_of_the_critic():
    groups: Groups = [[Paid(total=1.0, rewards=(0.0, 1.0), values=(0.5, 0.25))]]
    member = Ppo(PpoSpec(critic_learning_rate=1.0)).credit(groups).members[0][0]
    assert member is not None
    # A = 1/2, 3/4: mean 5/8, std sqrt(2 / 64)
    assert member.advantage == pytest.approx((-1 / 8 / (math.sqrt(2) / 8 + 1e-6), 1 / 8 / (math.sqrt(2) / 8 + 1e-6)))
    assert member.targets == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize(
    ("gae_lambda", "expected"),
    [
        # the return itself less the value, and one step less the value
        (1.0, [1.75 - 0.5, 1.5 - 0.25, 1.0 - 2.0]),
        (0.0, [0.25 + 0.25 - 0.5, 0.5 + 2.0 - 0.25, 1.0 - 2.0]),
    ],
)
def test_the_ends_of_lambda_are_the_return_and_one_step(gae_lambda, expected):
    assert generalized_advantages([0.25, 0.5, 1.0], [0.5, 0.25, 2.0], discount=1.0, gae_lambda=gae_lambda) == pytest.approx(expected)


def test_a_perfect_critic_leaves_no_advantage():
    rewards = [0.5, 0.0, 2.0]
    values = returns_to_go(rewards, discount=0.9)
    assert generalized_advantages(rewards, values, discount=0.9, gae_lambda=0.7) == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)


def test_returns_to_go_by_hand():
    assert returns_to_go([1.0, 0.0, 4.0], discount=0.5) == [2.0, 2.0, 4.0]
    assert returns_to_go([], discount=0.5) == []


def test_whitening_of_nothing_of_one_number_and_of_equal_numbers_gives_no_nan():
    assert whitened([]) == []
    assert whitened([[], [3.0]]) == [(), (0.0,)]
    assert whitened([[0.1, 0.1], [0.1]]) == [(0.0, 0.0), (0.0,)]


def test_a_leave_one_out_baseline_of_two_is_the_other_one():
    assert leave_one_out([3.0, 1.0]).values == (2.0, -2.0)


def test_what_is_paid_lands_on_action_tokens_alone():
    # tokens 2, 3 and 5 are the policy's; whatever observation follows, the last of them is paid
    item = trajectory("ooaaoaoo")
    assert token_rewards(Member(reward=0.75, trajectory=item)) == (0.0, 0.0, 0.75)
    assert token_rewards(Member(reward=0.75, trajectory=item, payments=((3, 0.25), (5, 0.5)))) == (0.0, 0.25, 0.5)
    assert token_rewards(Member(reward=1.0, trajectory=trajectory("ooo"))) == ()
    assert token_rewards(Member(reward=1.0, trajectory=None)) == ()


def test_promise_05_a_payment_on_an_observed_token_is_refused_rather_than_lost():
    with pytest.raises(ValueError, match="payment at token 4: expected an action token"):
        token_rewards(Member(reward=1.0, trajectory=trajectory("ooaaoaoo"), payments=((4, 1.0),)))
