"""Sums of stages, and what one success takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.capacity.measured import Measured, Turn, require_enough
from agentgym_cli.capacity.money import Prices, Stage, cost_of, in_all, per_success
from agentgym_cli.errors import RecipeError
from tests.capacity.test_throughput import LOAD, SERVICES

STAGE = Stage(
    name="horizon 10",
    first_step=1,
    last_step=100,
    horizon=10,
    seconds=3600.0,
    gpu_hours=8.0,
    episodes=2000,
    tokens_read=3e6,
    tokens_sampled=1e6,
    cost=20.0,
)
MEASURED = Measured(
    source="run r1",
    episodes=40,
    turns=(1, 2, 9),
    horizon=10,
    sampled_turns=(Turn(policy_seconds=1.0, env_seconds=0.2), Turn(policy_seconds=3.0, env_seconds=0.4)),
    prompt_tokens=50.0,
    response_tokens=7.0,
    observation_tokens=None,
    failures=0.25,
    reset_seconds=None,
    update_seconds=4.0,
    success=0.5,
    in_flight=4.0,
    env_places=2.0,
    same_policy=True,
)


def test_costs_by_hand() -> None:
    # 8 h at 2.5; 3M tokens at 1 and 1M at 4
    assert cost_of(8.0, 3e6, 1e6, Prices(gpu_hour=2.5)) == 20.0
    assert cost_of(0.0, 3e6, 1e6, Prices(million_read=1.0, million_sampled=4.0)) == 7.0
    assert cost_of(8.0, 3e6, 1e6, Prices()) is None


def test_stages_add_up() -> None:
    later = replace(STAGE, name="horizon 20", first_step=101, last_step=150, horizon=20, seconds=1800.0, cost=30.0)
    total = in_all([STAGE, later])
    assert (total.first_step, total.last_step, total.horizon, total.seconds, total.cost, total.episodes) == (1, 150, 20, 5400.0, 50.0, 4000)
    assert in_all([STAGE, replace(later, cost=None)]).cost is None
    with pytest.raises(ValueError, match="at least one"):
        in_all([])


def test_a_success_by_hand_and_none_where_nothing_succeeds() -> None:
    found = per_success(STAGE, (0.0, 0.5))
    # 1,000 successes
    assert [(row.rate, row.seconds, row.gpu_hours, row.tokens_sampled, row.cost) for row in found] == [(0.5, 3.6, 0.008, 1000.0, 0.02)]
    assert per_success(replace(STAGE, episodes=0), (0.5,)) == ()


def test_turns_of_a_run_are_cut_at_the_horizon() -> None:
    # min(1, 5), min(2, 5), min(9, 5)
    found = MEASURED.applied_to(LOAD)
    assert found.mean_turns == pytest.approx(8 / 3)
    assert (found.prompt_tokens, found.response_tokens, found.observation_tokens, found.failures) == (50.0, 7.0, 10.0, 0.25)


def test_measured_times_take_the_place_of_assumed_ones() -> None:
    found = MEASURED.replaced_in(SERVICES, LOAD)
    assert found.env_step == pytest.approx(0.3)
    assert found.turn(LOAD, 4.0) == pytest.approx(2.0)
    assert (found.update, found.env_reset) == (4.0, SERVICES.env_reset)
    assert set(found.sources) == {"env step", "prefill", "decode", "update"}


def test_times_of_another_policy_are_not_taken() -> None:
    found = replace(MEASURED, same_policy=False).replaced_in(SERVICES, LOAD)
    assert (found.decode_fixed, found.update) == (SERVICES.decode_fixed, SERVICES.update)
    assert set(found.sources) == {"env step"}


@pytest.mark.parametrize("episodes", [0, 19])
def test_too_few_episodes_are_refused_with_their_number(episodes: int) -> None:
    with pytest.raises(RecipeError, match=f"--from run r1: expected at least 20 scored episodes, got {episodes}"):
        require_enough(replace(MEASURED, episodes=episodes))
