"""Waiting lines against their textbook forms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.capacity.queueing import closed_loop
from tests.capacity.lines import erlang_c, simulate_queue


def test_one_server_by_hand() -> None:
    found = erlang_c(0.5, 1.0, 1)
    assert found is not None
    # M/M/1: response 1 / (1 - 0.5), waiting one less, inside 0.5 / 0.5
    assert (found.utilisation, found.response, found.waiting, found.inside) == pytest.approx((0.5, 2.0, 1.0, 1.0))


def test_two_servers_by_hand() -> None:
    found = erlang_c(1.0, 1.0, 2)
    assert found is not None
    # offered 1: C = (1 / 2 / 0.5) / (1 + 1 + 1) = 1 / 3; waiting C / (2 - 1)
    assert (found.utilisation, found.waiting) == pytest.approx((0.5, 1 / 3))


def test_a_line_without_end_has_no_mean() -> None:
    assert erlang_c(2.0, 1.0, 2) is None


@pytest.mark.parametrize(("arrivals", "seconds", "servers"), [(0.0, 1.0, 1), (1.0, -1.0, 1), (1.0, 1.0, 0)])
def test_what_cannot_be_a_queue_is_refused(arrivals: float, seconds: float, servers: int) -> None:
    with pytest.raises(ValueError, match="expected positive"):
        erlang_c(arrivals, seconds, servers)


@settings(max_examples=100, deadline=None)
@given(st.floats(min_value=0.01, max_value=0.99), st.integers(min_value=1, max_value=500))
def test_littles_law_holds_and_another_server_shortens_the_line(utilisation: float, servers: int) -> None:
    found, more = erlang_c(utilisation * servers, 1.0, servers), erlang_c(utilisation * servers, 1.0, servers + 1)
    assert found is not None and more is not None
    assert found.inside == pytest.approx(utilisation * servers * found.response)
    assert 0 <= more.waiting <= found.waiting


def test_a_loop_is_bound_by_its_population_or_its_slowest_station() -> None:
    few = closed_loop(2, policy_seconds=1.0, policy_places=8, env_seconds=3.0, env_places=4)
    assert (few.turns_per_second, few.turn_seconds) == (0.5, 4.0)
    many = closed_loop(100, policy_seconds=1.0, policy_places=8, env_seconds=3.0, env_places=4)
    # 4 places of 3 s: 1.333 turns a second; Little: 100 / 1.333 = 75 s a turn, line included
    assert many.turns_per_second == pytest.approx(4 / 3)
    assert (many.env_utilisation, many.turn_seconds) == pytest.approx((1.0, 75.0))


def test_a_loop_that_takes_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="takes some time"):
        closed_loop(1, policy_seconds=0.0, policy_places=1, env_seconds=0.0, env_places=1)
    with pytest.raises(ValueError, match="expected episodes"):
        closed_loop(0, policy_seconds=1.0, policy_places=1, env_seconds=0.0, env_places=1)


@pytest.mark.slow
@pytest.mark.parametrize(("utilisation", "servers", "customers"), [(0.3, 2, 20_000), (0.5, 1, 50_000), (0.7, 1, 100_000), (0.7, 4, 60_000)])
def test_the_simulation_agrees_with_mmc_within_two_percent(utilisation: float, servers: int, customers: int) -> None:
    exact = erlang_c(utilisation * servers, 1.0, servers)
    assert exact is not None
    runs = [simulate_queue(utilisation * servers, 1.0, servers, customers=customers, seed=seed) for seed in (1, 2, 3)]
    assert sum(run.response for run in runs) / len(runs) == pytest.approx(exact.response, rel=0.02)
    assert sum(run.utilisation for run in runs) / len(runs) == pytest.approx(utilisation, rel=0.02)
