"""Pairs of episodes of one task, by hand."""

from __future__ import annotations

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.pairs import Candidate, Pair, pairs_of


def said(*ids: int) -> Trajectory:
    return Trajectory(token_ids=(1, *ids), action_mask=(False, *(True for _ in ids)), logprobs=(0.0,) * (len(ids) + 1), policy_version=0)


def played(task: int, reward: float, action: int) -> Candidate:
    return Candidate(task=task, reward=reward, success=reward >= 1, trajectory=said(action))


def actions(pairs: list[Pair]) -> list[tuple[int, int]]:
    return [(pair.chosen.token_ids[-1], pair.rejected.token_ids[-1]) for pair in pairs]


def test_a_success_is_paired_with_a_failure_of_the_same_task_only():
    pairs, equal = pairs_of([played(1, 1, 10), played(2, 0, 20), played(1, 0, 11), played(3, 1, 30)], margin=None, most=4)
    assert (actions(pairs), equal) == ([(10, 11)], 0)


def test_each_episode_is_used_once_before_any_is_used_again():
    episodes = [played(1, 1, 10), played(1, 1, 11), played(1, 0, 20), played(1, 0, 21)]
    assert actions(pairs_of(episodes, margin=None, most=2)[0]) == [(10, 20), (11, 21)]
    assert actions(pairs_of(episodes, margin=None, most=9)[0]) == [(10, 20), (11, 21), (10, 21), (11, 20)]


def test_a_margin_pairs_by_return_whatever_counts_as_success():
    episodes = [played(1, 0.2, 10), played(1, 0.9, 11), played(1, 0.5, 12)]
    assert sorted(actions(pairs_of(episodes, margin=0.4, most=9)[0])) == [(11, 10), (11, 12)]
    assert actions(pairs_of(episodes, margin=0.8, most=9)[0]) == []


def test_equal_episodes_are_no_pair_and_are_counted():
    # a world that pays the same actions differently
    assert pairs_of([played(1, 1, 10), played(1, 0, 10)], margin=None, most=4) == ([], 1)
