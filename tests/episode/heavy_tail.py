"""Step latencies with a heavy tail on a virtual clock: how long a schedule takes without a barrier, and how long in lock step."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_cli.env.contract import StepReply
from agentgym_cli.episode.runner import run_schedule
from agentgym_cli.recipe.schema.world import BudgetsSpec, RetrySpec
from tests.episode.fakes import PLAIN, FakeEnv, FakePolicy, make_episode, make_rules
from tests.episode.virtual_time import run_virtual

MEDIAN_SECONDS, P99_SECONDS = 0.020, 2.0
_NORMAL_P99 = 2.3263478740408408
"""The 99th percentile of the standard normal distribution."""
_PATIENT = BudgetsSpec(policy_call_seconds=1e6, env_call_seconds=1e6, episode_seconds=1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Virtual seconds."""

    longest: float
    """Of the episode with the largest sum of latencies: what no schedule can be quicker than."""
    mean: float
    """Of an episode, on average."""
    whole: float
    """From the first reset to the last close."""


def latencies(episodes: int, turns: int, *, seed: int) -> list[list[float]]:
    """Seconds of each step of each episode: lognormal, median 20 ms, 99th percentile 2 s."""
    generator, sigma = random.Random(seed), math.log(P99_SECONDS / MEDIAN_SECONDS) / _NORMAL_P99
    return [[generator.lognormvariate(math.log(MEDIAN_SECONDS), sigma) for _ in range(turns)] for _ in range(episodes)]


def without_barrier(steps: Sequence[Sequence[float]]) -> Spans:
    """The engine's own schedule over a world that is as slow as ``steps``, all episodes at once."""
    turns = len(steps[0])
    pending = [iter(episode) for episode in steps]
    env = FakeEnv(
        answer=lambda task, action, turn: StepReply(observation="on", reward=float(turn == turns), done=turn == turns),
        seconds=lambda call, session: next(pending[session]) if call == "step" else 0.0,
    )

    async def timed() -> float:
        clock = asyncio.get_running_loop().time
        began = clock()
        results = await run_schedule(
            [make_episode(index, horizon=turns) for index in range(len(steps))],
            policy=FakePolicy(),
            env=env,
            rules=make_rules(),
            action_rule=PLAIN,
            budgets=_PATIENT,
            retry=RetrySpec(attempts=1),
            concurrency=len(steps),
            run_seed=1,
        )
        assert all(len(result.final.turns) == turns for result in results), "an episode ended early"
        return clock() - began

    return _spans(steps, run_virtual(timed()))


def in_lock_step(steps: Sequence[Sequence[float]]) -> Spans:
    """A loop that steps every world, waits for all of them, and asks for the next actions."""

    async def timed() -> float:
        clock = asyncio.get_running_loop().time
        began = clock()
        for turn in zip(*steps, strict=True):
            await asyncio.gather(*(asyncio.sleep(seconds) for seconds in turn))
        return clock() - began

    return _spans(steps, run_virtual(timed()))


def _spans(steps: Sequence[Sequence[float]], whole: float) -> Spans:
    sums = [sum(episode) for episode in steps]
    return Spans(longest=max(sums), mean=sum(sums) / len(sums), whole=whole)
