"""What learning is paid in, what turns cost, and where it lands."""

from __future__ import annotations

import math

import pytest

from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason, Task, Trajectory, Turn
from agentgym_cli.learn.rewards import RewardKind, less_kl, member_of, signal_of, token_kl
from agentgym_cli.recipe.schema.algorithms import KlEstimate
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


def make_turn(reward: float | None, tokens: int, *, valid: bool = True) -> Turn:
    return Turn(
        observation="",
        text="",
        action="",
        valid=valid,
        reward=reward,
        done=False,
        response_tokens=tokens,
        context_tokens=0,
        policy_seconds=0.0,
        env_seconds=0.0,
    )


def make_result(turns: list[Turn], *, reward: float | None, spoken: str | None = None, outcome: Outcome = Outcome.FAILURE) -> AttemptResult:
    """Three observed tokens before each turn, unless ``spoken`` says otherwise."""
    said = "".join("ooo" + "a" * turn.response_tokens for turn in turns) if spoken is None else spoken
    mask = tuple(each == "a" for each in said)
    task = Task(id="toy_1", index=1, split="train", category="", goal="", digest="")
    return AttemptResult(
        episode=ScheduledEpisode(phase="train", step=1, task=task, sample=0, horizon=5),
        attempt=1,
        seed=1,
        stop=StopReason.HORIZON,
        outcome=outcome,
        truncated=True,
        cause=None,
        detail="",
        action_induced=False,
        reward=reward,
        final_observation="",
        turns=tuple(turns),
        trajectory=Trajectory(token_ids=(0,) * len(said), action_mask=mask, logprobs=(0.0,) * len(said), policy_version=0) if any(mask) else None,
        prompt_tokens=3,
        action_tokens=sum(mask),
        seconds=0.0,
        policy_seconds=0.0,
        env_seconds=0.0,
        replica="",
    )


TURNS = [make_turn(0.25, 2), make_turn(0.5, 1, valid=False), make_turn(1.0, 3)]
"""Action tokens 3, 4; 8; 12, 13, 14."""


@pytest.mark.parametrize(
    ("kind", "reward", "payments"),
    [
        # each turn's own; the rise of a score; the last alone
        ("per_step", 1.75, ((4, 0.5), (8, 1.0), (14, 2.0))),
        ("cumulative", 1.0, ((4, 0.5), (8, 0.5), (14, 1.0))),
        ("terminal", 1.0, ((4, 0.0), (8, 0.0), (14, 2.0))),
    ],
)
def test_a_turn_is_paid_what_it_earned_on_its_own_last_token(kind: RewardKind, reward: float, payments: tuple[tuple[int, float], ...]) -> None:
    member = member_of(RewardSpec(credit="turn", scale=2.0), make_result(TURNS, reward=reward), kind)
    assert member.reward == 2.0 * reward
    assert member.payments == payments


def test_costs_of_turns_are_taken_off_where_they_arose() -> None:
    spec = RewardSpec(credit="turn", turn_cost=0.125, invalid_cost=0.5, token_cost=0.0625)
    member = member_of(spec, make_result(TURNS, reward=1.75), "per_step")
    # 1/4 - 1/8 - 2/16, 1/2 - 1/8 - 1/2 - 1/16, 1 - 1/8 - 3/16
    assert member.payments == ((4, 0.0), (8, -0.1875), (14, 0.6875))
    assert member.reward == 0.5


def test_paid_by_episode_the_same_costs_come_off_the_return() -> None:
    spec = RewardSpec(turn_cost=0.125, invalid_cost=0.5, token_cost=0.0625)
    member = member_of(spec, make_result(TURNS, reward=1.75), "per_step")
    assert (member.reward, member.payments) == (0.5, None)


def test_success_is_earned_by_the_last_turn() -> None:
    spec = RewardSpec(signal="success", credit="turn", turn_cost=0.25)
    member = member_of(spec, make_result(TURNS, reward=0.0, outcome=Outcome.SUCCESS), "per_step")
    assert member.payments == ((4, -0.25), (8, -0.25), (14, 0.75))


def test_a_turn_without_tokens_is_paid_on_the_token_before_it_or_the_first_of_all() -> None:
    turns = [make_turn(1.0, 0), make_turn(2.0, 2), make_turn(4.0, 0)]
    assert member_of(RewardSpec(credit="turn"), make_result(turns, reward=7.0), "per_step").payments == ((6, 1.0), (7, 2.0), (7, 4.0))


def test_tokens_of_a_turn_that_never_reached_the_world_are_paid_nothing() -> None:
    result = make_result([make_turn(1.0, 2)], reward=1.0, spoken="oooaaoaa")
    assert member_of(RewardSpec(credit="turn"), result, "per_step").payments == ((4, 1.0),)


def test_promise_02_a_world_s_failure_is_paid_nothing_and_costs_nothing() -> None:
    failed = make_result(TURNS, reward=None, outcome=Outcome.INFRA_ERROR)
    member = member_of(RewardSpec(credit="turn", turn_cost=1.0), failed, "per_step")
    assert (member.reward, member.payments) == (None, None)


def test_an_episode_without_a_turn_is_paid_its_return() -> None:
    member = member_of(RewardSpec(credit="turn", turn_cost=1.0), make_result([], reward=0.0), "per_step")
    assert (member.reward, member.payments, member.trajectory) == (0.0, None, None)


@pytest.mark.parametrize(
    ("estimate", "expected"),
    # d = log(1/2 / 1/4) and log(1/4 / 1/2): -d, d^2 / 2, e^d - d - 1
    [
        ("k1", (-math.log(2), math.log(2))),
        ("k2", (math.log(2) ** 2 / 2, math.log(2) ** 2 / 2)),
        ("k3", (2 - math.log(2) - 1, 0.5 + math.log(2) - 1)),
    ],
)
def test_kl_is_taken_off_each_token_by_its_estimate(estimate: KlEstimate, expected: tuple[float, float]) -> None:
    policy, reference = (math.log(0.25), math.log(0.5)), (math.log(0.5), math.log(0.25))
    assert token_kl(policy, reference, estimate=estimate) == pytest.approx(expected)
    less = less_kl((0.0, 1.0), policy, reference, coefficient=0.5, estimate=estimate)
    assert less == pytest.approx((-expected[0] / 2, 1 - expected[1] / 2))
