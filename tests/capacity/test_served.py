"""Times of an evaluation without devices, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.capacity.served import Server, served_time
from agentgym_cli.capacity.service import Load

LOAD = Load(episodes=100, in_flight=20, horizon=5, mean_turns=3.0, prompt_tokens=30.0, observation_tokens=10.0, response_tokens=20.0)
SERVER = Server(turn_seconds=0.9, in_flight=20)
WORLD = {"env_step": 0.1, "env_reset": 0.2, "env_places": 4.0}


def test_an_evaluation_by_hand() -> None:
    found = served_time(LOAD, SERVER, **WORLD)
    # 20 episodes of 1 s a turn; 4 places of 0.1 s; 20 requests of 0.9 s
    assert found.turns_per_second == {"episodes at once": 20.0, "worlds": 40.0, "requests at once": pytest.approx(20 / 0.9)}
    # resets 100 x 0.2 / 4, 300 turns, and the longest goes on for 2 turns alone
    assert (found.bottleneck, found.seconds) == ("episodes at once", pytest.approx(5 + 300 / 20 + 2 * 1.0))


@pytest.mark.parametrize(
    ("limits", "bottleneck", "rate"),
    [
        ({"in_flight": 9}, "requests at once", 10.0),
        ({"requests_per_minute": 300.0}, "requests a minute", 5.0),
        # an episode reads 30, 60 and 90 tokens and samples 60: 80 a turn
        ({"tokens_per_minute": 9600.0}, "tokens a minute", 2.0),
        ({"tokens_per_minute": 9600.0, "requests_per_minute": 60.0}, "requests a minute", 1.0),
    ],
)
def test_the_tightest_limit_is_the_bottleneck(limits: dict[str, float], bottleneck: str, rate: float) -> None:
    found = served_time(LOAD, replace(SERVER, **limits), **WORLD)  # type: ignore[arg-type]
    assert (found.bottleneck, found.turns_per_second[bottleneck]) == (bottleneck, pytest.approx(rate))
    assert found.seconds == pytest.approx(5 + 300 / rate + 2)


def test_a_rule_waits_for_worlds_alone() -> None:
    silent = replace(LOAD, prompt_tokens=0.0, observation_tokens=0.0, response_tokens=0.0)
    found = served_time(silent, Server(turn_seconds=0.0, in_flight=20, tokens_per_minute=1.0), **WORLD)
    assert found.turns_per_second == {"episodes at once": 200.0, "worlds": 40.0}
