"""Every budget has its own stop reason and fires exactly at its limit, on a virtual clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.episode.budgets import Prices, RunBudget
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.protocol import ContextFull
from agentgym_cli.episode.runner import EpisodeResult, run_schedule
from agentgym_cli.episode.types import AttemptResult, Outcome, StopReason
from agentgym_cli.errors import ExitCode, Interrupted
from agentgym_cli.recipe.schema.world import BudgetsSpec, RetrySpec
from tests.episode.fakes import BUDGETS, PLAIN, FakeEnv, FakePolicy, make_episode, make_rules, solve_in
from tests.episode.virtual_time import run_virtual

NEVER = solve_in(1_000)


def play(env: FakeEnv, policy: FakePolicy, *, budgets: BudgetsSpec = BUDGETS, horizon: int = 5, run_budget: RunBudget | None = None) -> AttemptResult:
    return run_virtual(
        run_episode(
            make_episode(horizon=horizon),
            attempt=1,
            seed=7,
            policy=policy,
            env=env,
            rules=make_rules(),
            action_rule=PLAIN,
            budgets=budgets,
            run_budget=run_budget,
        )
    )


def stopped(result: AttemptResult) -> tuple[StopReason, Outcome, bool, InfraCause | None, int]:
    return result.stop, result.outcome, result.truncated, result.cause, len(result.turns)


def test_turns_stop_at_the_horizon() -> None:
    assert stopped(play(FakeEnv(answer=NEVER), FakePolicy(), horizon=4)) == (StopReason.HORIZON, Outcome.FAILURE, True, None, 4)


def test_a_full_context_stops_before_anything_is_sent() -> None:
    policy = FakePolicy(say=lambda episode, observation, turn: ContextFull() if turn == 3 else "a")
    env = FakeEnv(answer=NEVER)
    assert stopped(play(env, policy)) == (StopReason.CONTEXT, Outcome.FAILURE, True, None, 2)
    assert len(env.steps) == 2


@pytest.mark.parametrize(("limit", "stop"), [(2, StopReason.DONE), (1, StopReason.POLICY_PROTOCOL)])
def test_a_response_longer_than_its_budget_breaks_the_policys_promise_and_is_not_sent(limit: int, stop: StopReason) -> None:
    env = FakeEnv()
    result = play(env, FakePolicy(), budgets=replace(BUDGETS, response_tokens=limit))
    assert result.stop is stop
    assert len(env.steps) == (1 if stop is StopReason.DONE else 0)
    assert result.action_tokens == 2


@pytest.mark.parametrize(("seconds", "stop"), [(4.0, StopReason.DONE), (5.0, StopReason.POLICY_DEADLINE)])
def test_seconds_of_a_policy_call(seconds: float, stop: StopReason) -> None:
    result = play(FakeEnv(), FakePolicy(seconds=lambda turn: seconds), budgets=replace(BUDGETS, policy_call_seconds=5.0))
    assert (result.stop, result.seconds) == (stop, seconds)


@pytest.mark.parametrize(("seconds", "stop"), [(4.0, StopReason.DONE), (5.0, StopReason.ENV_DEADLINE)])
def test_seconds_of_an_env_call(seconds: float, stop: StopReason) -> None:
    env = FakeEnv(seconds=lambda call, session: seconds if call == "step" else 0.0)
    result = play(env, FakePolicy(), budgets=replace(BUDGETS, env_call_seconds=5.0))
    assert (result.stop, result.seconds) == (stop, seconds)


@pytest.mark.parametrize(
    ("policy_seconds", "env_seconds", "stop", "outcome", "turns"),
    [
        (3.0, 0.0, StopReason.POLICY_DEADLINE, Outcome.FAILURE, 3),
        (0.0, 3.0, StopReason.ENV_DEADLINE, Outcome.INFRA_ERROR, 4),
    ],
)
def test_seconds_of_an_episode_are_blamed_on_whom_they_are_spent_with(
    policy_seconds: float, env_seconds: float, stop: StopReason, outcome: Outcome, turns: int
) -> None:
    env = FakeEnv(answer=NEVER, seconds=lambda call, session: env_seconds if call == "step" else 0.0)
    result = play(env, FakePolicy(seconds=lambda turn: policy_seconds), budgets=replace(BUDGETS, episode_seconds=10.0))
    assert (result.stop, result.outcome, len(result.turns), result.seconds) == (stop, outcome, turns, 10.0)


def test_tokens_of_a_run_stop_an_episode_that_would_ask_again() -> None:
    """A turn of the fake policy reads 10, 20, 30 ... tokens and samples 2: 12 after the first, 34 after the second."""
    budget = RunBudget(replace(BUDGETS, run_tokens=34))
    result = play(FakeEnv(answer=NEVER), FakePolicy(), run_budget=budget)
    assert stopped(result) == (StopReason.RUN_BUDGET, Outcome.MISSING, False, None, 2)
    assert (result.reward, result.detail) == (None, "budgets.run_tokens: expected fewer than 34 tokens before a policy call, got 34")
    assert (budget.read, budget.sampled) == (30, 4)


def test_an_episode_that_ends_with_the_last_token_of_the_run_keeps_its_outcome() -> None:
    budget = RunBudget(replace(BUDGETS, run_tokens=34))
    assert play(FakeEnv(answer=solve_in(2)), FakePolicy(), run_budget=budget).outcome is Outcome.SUCCESS


def test_money_of_a_run_is_counted_at_the_prices_of_read_and_sampled_tokens() -> None:
    """Two turns: 30 tokens read at 2 a million and 4 sampled at 10 a million are 0.0001."""
    budget = RunBudget(replace(BUDGETS, run_cost=0.0001), prices=Prices(read=2.0, sampled=10.0))
    result = play(FakeEnv(answer=NEVER), FakePolicy(), run_budget=budget)
    assert stopped(result) == (StopReason.RUN_BUDGET, Outcome.MISSING, False, None, 2)
    assert budget.cost == pytest.approx(0.0001, rel=1e-12)
    assert result.detail == "budgets.run_cost: expected less than 0.0001 spent before a policy call, got 0.0001"


def test_a_resume_counts_what_earlier_segments_spent() -> None:
    budget = RunBudget(replace(BUDGETS, run_tokens=100), read=90, sampled=10)
    assert stopped(play(FakeEnv(), FakePolicy(), run_budget=budget)) == (StopReason.RUN_BUDGET, Outcome.MISSING, False, None, 0)


def run_all(budget: RunBudget, made: list[AttemptResult], final: list[EpisodeResult], recorded: dict[str, list[AttemptResult]]) -> None:
    run_virtual(
        run_schedule(
            [make_episode(index) for index in range(6)],
            policy=FakePolicy(),
            env=FakeEnv(answer=solve_in(2), seconds=lambda call, session: 1.0),
            rules=make_rules(),
            action_rule=PLAIN,
            budgets=BUDGETS,
            retry=RetrySpec(),
            concurrency=2,
            run_seed=5,
            on_attempt=made.append,
            on_final=final.append,
            recorded=recorded,
            run_budget=budget,
        )
    )


def test_a_spent_budget_ends_the_run_as_interrupted_with_everything_recorded_and_a_resume_makes_what_is_missing() -> None:
    """An episode takes 34 tokens; two run at once, and 80 are reached in the first turns of the second pair."""
    made: list[AttemptResult] = []
    final: list[EpisodeResult] = []
    with pytest.raises(Interrupted, match="4 of 6 episodes have no outcome yet") as caught:
        run_all(RunBudget(replace(BUDGETS, run_tokens=80)), made, final, {})
    assert caught.value.exit_code is ExitCode.INTERRUPTED
    assert [(attempt.outcome, attempt.attempt) for attempt in made] == [(Outcome.SUCCESS, 1)] * 2 + [(Outcome.MISSING, 1)] * 2
    assert len(final) == 2

    kept = {attempt.episode.id: [attempt] for attempt in made if attempt.outcome is not Outcome.MISSING}
    again: list[AttemptResult] = []
    run_all(RunBudget(replace(BUDGETS, run_tokens=1_000), read=84, sampled=8), again, final, kept)
    assert [(attempt.outcome, attempt.attempt) for attempt in again] == [(Outcome.SUCCESS, 1)] * 4
    assert [attempt.seed for attempt in again[:2]] == [attempt.seed for attempt in made[2:]]


def test_a_budget_that_is_spent_with_the_last_episode_interrupts_nothing() -> None:
    made: list[AttemptResult] = []
    run_all(RunBudget(replace(BUDGETS, run_tokens=6 * 34)), made, [], {})
    assert [attempt.outcome for attempt in made] == [Outcome.SUCCESS] * 6
