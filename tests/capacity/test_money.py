"""Sums of stages, and what one success takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.capacity.money import Prices, Stage, cost_of, in_all, per_success

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
