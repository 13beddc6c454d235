"""The wave policy over real weights: the same bits whatever the world's timing and whoever shares a decode."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.env.contract import StepReply
from agentgym_cli.episode.policies.sampler import TorchDecoder
from agentgym_cli.episode.policies.wave import WavePolicy
from agentgym_cli.episode.runner import EpisodeResult, run_schedule
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.model import build_model
from agentgym_cli.recipe.schema.world import BudgetsSpec, RetrySpec
from tests.episode.fakes import PLAIN, FakeEnv, make_episode, make_rules
from tests.episode.virtual_time import run_virtual

pytestmark = pytest.mark.torch

MODEL = Path(__file__).parents[2] / "recipes" / "models" / "textcraft_laptop"
BUDGETS = BudgetsSpec(response_tokens=6, context_tokens=64, policy_call_seconds=600.0, env_call_seconds=100.0, episode_seconds=3600.0)


def play(seconds: dict[int, float], *, concurrency: int) -> list[EpisodeResult]:
    tokens = TurnTokens.from_file(MODEL / "tokenizer.json", "words")
    model = build_model(MODEL, seed=1, vocabulary=tokens.vocabulary, context=64)
    decoder = TorchDecoder(model, slots=8, context=64, stop_ids=tokens.stop_ids, policy_version=2)
    env = FakeEnv(
        first=lambda index: f"Goal: craft {index} flax cord.",
        answer=lambda task, action, turn: StepReply(observation="Got 1 flax", reward=float(len(action)), done=turn == 1 + task % 3),
        seconds=lambda call, session: seconds.get(session % 5, 0.0),
    )
    policy = WavePolicy(decoder, tokens=tokens, system_prompt="", budgets=BUDGETS, temperature=1.0)
    return run_virtual(
        run_schedule(
            [make_episode(index, horizon=3) for index in range(12)],
            policy=policy,
            env=env,
            rules=make_rules(),
            action_rule=PLAIN,
            budgets=BUDGETS,
            retry=RetrySpec(attempts=1),
            concurrency=concurrency,
            run_seed=1,
        )
    )


def trajectories(results: list[EpisodeResult]) -> list[Trajectory | None]:
    return [result.final.trajectory for result in results]


def test_promise_07_real_weights_give_equal_bits_whatever_the_worlds_timing() -> None:
    undisturbed = trajectories(play({}, concurrency=8))
    assert all(trajectory is not None and trajectory.policy_version == 2 for trajectory in undisturbed)
    assert len({trajectory.token_ids for trajectory in undisturbed if trajectory is not None}) == 12
    assert trajectories(play({0: 0.5, 2: 30.0, 3: 4.0}, concurrency=8)) == undisturbed
    assert trajectories(play({1: 7.0}, concurrency=3)) == undisturbed
