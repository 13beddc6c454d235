"""Measurements in the place of assumptions: what is taken, what is scaled, what is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.capacity.measured import ALL, Measured, Probed, Turn, Use, require_enough
from agentgym_cli.errors import RecipeError
from tests.capacity.test_throughput import LOAD, SERVICES

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
    reset_seconds=0.8,
    update_seconds=4.0,
    success=0.5,
    in_flight=4.0,
    env_places=2.0,
    use=Use(worlds=True, play=True, policy=2.0, update=3.0),
)


def test_turns_of_a_run_are_cut_at_the_horizon() -> None:
    # min(1, 5), min(2, 5), min(9, 5)
    found = MEASURED.applied_to(LOAD)
    assert found.mean_turns == pytest.approx(8 / 3)
    assert (found.prompt_tokens, found.response_tokens, found.observation_tokens, found.failures) == (50.0, 7.0, 10.0, 0.25)


def test_worlds_times_are_taken_and_the_policys_are_scaled() -> None:
    found = MEASURED.replaced_in(SERVICES, LOAD)
    # means of 0.2 and 0.4; twice and three times what is assumed
    assert (found.env_step, found.env_reset) == (pytest.approx(0.3), 0.8)
    assert found.turn(LOAD, 4.0) == pytest.approx(2 * SERVICES.turn(LOAD, 4.0))
    assert found.update == 3 * SERVICES.update
    assert set(found.sources) == {"env step", "env reset", "prefill", "decode", "update"}


def test_a_reset_that_nobody_measured_is_two_of_the_measured_calls() -> None:
    # two calls of 0.3 s; two of 0.4 s
    assert replace(MEASURED, reset_seconds=None).replaced_in(SERVICES, LOAD).env_reset == pytest.approx(0.6)
    probed = Probed(source="probe p.json", env_seconds=0.4, env_places=3.0).replaced_in(SERVICES, LOAD)
    assert (probed.env_step, probed.env_reset, probed.sources["env reset"]) == (0.4, 0.8, "probe p.json")


def test_a_run_that_trains_nothing_gets_no_update() -> None:
    idle = replace(SERVICES, update=0.0, weight_sync=0.0, checkpoint=0.0)
    found = MEASURED.replaced_in(idle, LOAD)
    assert (found.update, "update" in found.sources) == (0.0, False)


def test_times_of_other_devices_are_not_taken() -> None:
    found = replace(MEASURED, use=MEASURED.use.elsewhere).replaced_in(SERVICES, LOAD)
    assert (found.decode_fixed, found.update) == (SERVICES.decode_fixed, SERVICES.update)
    assert set(found.sources) == {"env step", "env reset"}


def test_other_worlds_and_other_episodes_change_nothing() -> None:
    other = replace(MEASURED, use=replace(ALL, worlds=False, play=False))
    assert other.replaced_in(SERVICES, LOAD) == SERVICES
    assert other.applied_to(LOAD) == LOAD


@pytest.mark.parametrize("episodes", [0, 19])
def test_too_few_episodes_are_refused_with_their_number(episodes: int) -> None:
    with pytest.raises(RecipeError, match=f"--from run r1: expected at least 20 scored episodes, got {episodes}"):
        require_enough(replace(MEASURED, episodes=episodes))
