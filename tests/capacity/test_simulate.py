"""Simulated steps whose outcome can be worked out by hand, and their properties."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.capacity.service import Load
from agentgym_cli.capacity.simulate import Workshop, quantile, simulate_steps
from tests.capacity.lines import simulate_queue

SHOP = Workshop(
    groups=2,
    group_size=2,
    in_flight=4,
    turns=[3],
    horizon=3,
    policy_seconds=[2.0],
    env_seconds=[1.0],
    reset_seconds=0.0,
    policy_places=4,
    env_places=4,
    failures=0.0,
    most_attempts=3,
    after_play=10.0,
)


def test_with_places_for_all_nobody_waits() -> None:
    found = simulate_steps(SHOP, steps=3, seed=1)
    # 3 turns of 2 + 1 s, then 10 s
    assert (found.seconds_p50, found.seconds_p95, found.lock_step_p50) == (19.0, 19.0, 19.0)
    assert (found.straggler_share, found.group_wait) == (0.0, 0.0)
    # everybody thinks together for 6 of 9 s
    assert (found.policy_idle, found.env_idle) == pytest.approx((3 / 9, 6 / 9))
    assert (found.policy_used, found.env_used) == pytest.approx((6 / 9, 3 / 9))


def test_one_place_makes_a_line() -> None:
    found = simulate_steps(replace(SHOP, policy_places=1, env_seconds=[0.0]), steps=1, seed=1)
    # 12 turns of 2 s, one after the other
    assert (found.seconds_p50, found.policy_used, found.policy_idle) == (34.0, 1.0, 0.0)


def test_a_horizon_cuts_turns() -> None:
    assert simulate_steps(replace(SHOP, turns=[50], horizon=2), steps=1, seed=1).play_mean == 6.0


def test_fewer_in_flight_go_one_after_the_other() -> None:
    assert simulate_steps(replace(SHOP, in_flight=1), steps=1, seed=1).play_mean == 36.0


def test_a_long_episode_straggles_and_its_group_waits() -> None:
    shop = replace(SHOP, groups=1, group_size=20, in_flight=20, policy_places=20, env_places=20, turns=[1, 10], horizon=10)
    found = simulate_steps(shop, steps=20, seed=1)
    assert found.play_mean == pytest.approx(30.0, abs=1.5)
    # half of the episodes end after 3 s and wait 27 of 30 s for the others
    assert found.group_wait == pytest.approx(0.45, abs=0.1)


def test_failures_cost_turns() -> None:
    clean, broken = (simulate_steps(replace(SHOP, failures=share), steps=20, seed=1).play_mean for share in (0.0, 0.5))
    assert clean == 9.0
    assert broken > 11.0


@pytest.mark.parametrize(("failures", "most"), [(0.3, 1), (0.5, 3), (0.8, 6)])
def test_simulated_attempts_are_those_of_the_closed_form(failures: float, most: int) -> None:
    shop = replace(
        SHOP, groups=1000, turns=[9], horizon=9, failures=failures, most_attempts=most, in_flight=2000, policy_places=2000, env_places=2000
    )
    load = Load(
        episodes=2000,
        in_flight=2000,
        horizon=9,
        mean_turns=9.0,
        prompt_tokens=0.0,
        observation_tokens=0.0,
        response_tokens=1.0,
        failures=failures,
        most_attempts=most,
    )
    played = simulate_steps(shop, steps=1, seed=1)
    # 2 s of the policy a turn, with a place for everybody
    turns = played.policy_used * played.play_mean * 2000 / 2.0
    assert turns == pytest.approx(load.turns, rel=0.02)


def test_a_lock_step_loop_waits_for_the_slowest_turn() -> None:
    shop = replace(SHOP, groups=8, in_flight=16, policy_places=16, env_places=16, policy_seconds=[1.0] * 9 + [20.0], turns=[5], horizon=5)
    found = simulate_steps(shop, steps=20, seed=3)
    # the slowest of 16 turns is a long one four times in five, five turns long; a free loop waits for the unluckiest episode only
    assert found.lock_step_p50 > 1.3 * found.seconds_p50


def test_the_same_seed_draws_the_same() -> None:
    shop = replace(SHOP, turns=[1, 2, 3], policy_seconds=[0.5, 3.0], failures=0.1)
    assert simulate_steps(shop, steps=5, seed=7) == simulate_steps(shop, steps=5, seed=7)
    assert simulate_steps(shop, steps=5, seed=7) != simulate_steps(shop, steps=5, seed=8)


@pytest.mark.parametrize("change", [{"groups": 0}, {"env_places": 0}, {"turns": []}, {"policy_seconds": []}, {"horizon": 0}])
def test_nothing_cannot_be_simulated(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected at least one of everything"):
        simulate_steps(replace(SHOP, **change), steps=1, seed=1)  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.lists(st.integers(1, 8), min_size=1, max_size=4), st.floats(0, 5), st.floats(0, 5))
def test_no_step_is_shorter_than_its_work_allows(policy: int, worlds: int, turns: list[int], thinking: float, acting: float) -> None:
    shop = replace(SHOP, policy_places=policy, env_places=worlds, turns=turns, horizon=8, policy_seconds=[thinking], env_seconds=[acting])
    found = simulate_steps(shop, steps=2, seed=1)
    assert found.play_mean >= min(turns) * (thinking + acting) - 1e-9
    for share in (found.policy_idle, found.env_idle, found.policy_used, found.env_used, found.straggler_share, found.group_wait):
        assert -1e-9 <= share <= 1 + 1e-9
    assert found.seconds_p50 <= found.seconds_p95


def test_quantiles_lie_between_ranks() -> None:
    assert [quantile([4.0, 1.0, 3.0, 2.0], share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.5, 4.0]
    with pytest.raises(ValueError, match="got none"):
        quantile([], 0.5)


def test_a_quiet_queue_hardly_waits() -> None:
    found = simulate_queue(0.1, 1.0, 4, customers=2000, seed=1)
    assert found.waiting < 0.01
    assert found.utilisation == pytest.approx(0.025, rel=0.2)
