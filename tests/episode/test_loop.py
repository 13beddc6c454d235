"""One episode against every fault of its two sides, under a virtual clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from agentgym_cli.env.content import PinnedTasks
from agentgym_cli.env.contract import ActionRule, EnvFailure, EpisodeRules, InfraCause, StepReply, content_digest
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.failures import PolicyProtocol, PolicyUnavailable
from agentgym_cli.episode.policies.protocol import ContextFull, Policy
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason
from agentgym_cli.errors import StoreError
from agentgym_cli.recipe.schema.world import BudgetsSpec
from tests.episode.fakes import BUDGETS, PLAIN, REACT, FakeEnv, FakePolicy, Fault, make_episode, make_rules, solve_in
from tests.episode.virtual_time import VirtualLoop, run_virtual


def play(
    env: FakeEnv,
    policy: Policy | None = None,
    *,
    episode: ScheduledEpisode | None = None,
    rules: EpisodeRules | None = None,
    action_rule: ActionRule = PLAIN,
    budgets: BudgetsSpec = BUDGETS,
) -> AttemptResult:
    return run_virtual(
        run_episode(
            episode or make_episode(),
            attempt=1,
            seed=7,
            policy=policy or FakePolicy(),
            env=env,
            rules=rules or make_rules(),
            action_rule=action_rule,
            budgets=budgets,
        )
    )


def hold_up(seconds: float) -> None:
    """Keep the whole loop from running, as slow code of ours would."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.advance(seconds)


def at(call: str, fault: Fault) -> Callable[[str, int], Fault]:
    return lambda made, session: fault if made == call else None


def test_an_episode_that_is_done_is_scored_and_its_session_closed() -> None:
    env = FakeEnv(answer=solve_in(3))
    result = play(env)
    assert (result.stop, result.outcome, result.truncated, result.reward, result.cause) == (StopReason.DONE, Outcome.SUCCESS, False, 1.0, None)
    assert [(turn.observation, turn.action, turn.reward, turn.done) for turn in result.turns] == [
        ("task 0", "a1", 0.0, False),
        ("after a1", "a2", 0.0, False),
        ("after a2", "a3", 1.0, True),
    ]
    assert result.final_observation == "after a3"
    assert env.closed == [0]
    assert (result.prompt_tokens, result.action_tokens, result.seed, result.attempt, result.replica) == (10, 6, 7, 1, "fake://0")


def test_done_with_a_low_reward_is_a_failure_that_was_not_cut() -> None:
    result = play(FakeEnv(answer=lambda task, action, turn: StepReply(observation="lost", reward=-1.0, done=True)))
    assert (result.outcome, result.truncated, result.reward) == (Outcome.FAILURE, False, -1.0)


@pytest.mark.parametrize(("satisfied", "outcome"), [(True, Outcome.SUCCESS), (False, Outcome.FAILURE)])
def test_a_verifier_decides_what_done_counts_as(satisfied: bool, outcome: Outcome) -> None:
    reward = 0.0 if satisfied else 1.0
    env = FakeEnv(answer=lambda task, action, turn: StepReply(observation="", reward=reward, done=True), satisfied=satisfied)
    result = play(env, rules=make_rules(verified=True))
    assert (result.outcome, result.verified, result.reward) == (outcome, satisfied, reward)


def test_a_verifier_that_fails_leaves_no_score() -> None:
    env = FakeEnv(fault=at("verify", EnvFailure(InfraCause.SERVER_5XX, "boom")))
    result = play(env, rules=make_rules(verified=True))
    assert (result.stop, result.outcome, result.reward, result.verified) == (StopReason.ENV_ERROR, Outcome.INFRA_ERROR, None, None)


def test_no_verifier_is_asked_where_the_dialect_has_none() -> None:
    result = play(FakeEnv(fault=at("verify", EnvFailure(InfraCause.SERVER_4XX, "no such route"))))
    assert (result.outcome, result.verified) == (Outcome.SUCCESS, None)


@pytest.mark.parametrize("horizon", [1, 2, 7])
def test_the_horizon_cuts_after_exactly_as_many_turns(horizon: int) -> None:
    env = FakeEnv(answer=solve_in(horizon + 1))
    result = play(env, episode=make_episode(horizon=horizon))
    assert (result.stop, result.outcome, result.truncated, result.reward) == (StopReason.HORIZON, Outcome.FAILURE, True, 0.0)
    assert len(result.turns) == len(env.steps) == horizon


def test_done_on_the_last_turn_of_the_horizon_is_done() -> None:
    assert play(FakeEnv(answer=solve_in(2)), episode=make_episode(horizon=2)).stop is StopReason.DONE


@pytest.mark.slow
def test_a_thousand_turns() -> None:
    result = play(FakeEnv(answer=solve_in(1000)), episode=make_episode(horizon=1000))
    assert (len(result.turns), result.outcome) == (1000, Outcome.SUCCESS)


@pytest.mark.parametrize(
    ("kind", "total", "outcome"), [("terminal", 0.25, Outcome.FAILURE), ("per_step", 1.0, Outcome.SUCCESS), ("cumulative", 0.25, Outcome.FAILURE)]
)
def test_return_by_the_dialects_rule(kind: str, total: float, outcome: Outcome) -> None:
    rewards = {1: 0.5, 2: 0.25, 3: 0.25}
    env = FakeEnv(answer=lambda task, action, turn: StepReply(observation="", reward=rewards[turn], done=turn == 3))
    result = play(env, rules=make_rules(reward_kind=kind))  # type: ignore[arg-type]
    assert (result.reward, result.outcome) == (total, outcome)


@pytest.mark.parametrize(("kind", "total"), [("terminal", 0.0), ("per_step", 0.5), ("cumulative", 0.5)])
def test_an_answer_without_the_world_keeps_the_return(kind: str, total: float) -> None:
    env = FakeEnv(answer=lambda task, action, turn: StepReply(observation="", reward=0.5, done=False))
    policy = FakePolicy(say=lambda episode, observation, turn: "Action: a" if turn == 1 else "Action: a\nAction: b")
    result = play(env, policy, rules=make_rules(reward_kind=kind), action_rule=REACT, episode=make_episode(horizon=2))  # type: ignore[arg-type]
    assert result.reward == total
    assert result.final_observation == "One action only."


def test_an_invalid_action_is_an_ordinary_turn() -> None:
    env = FakeEnv(
        answer=lambda task, action, turn: StepReply(observation=f"Could not execute {action}" if turn < 3 else "ok", reward=turn / 4, done=turn == 4)
    )
    policy = FakePolicy(say=lambda episode, observation, turn: "" if turn == 2 else f"a{turn}")
    result = play(env, policy)
    assert [turn.valid for turn in result.turns] == [False, False, True, True]
    assert result.outcome is Outcome.SUCCESS
    assert env.steps[1] == (0, "")


def test_two_actions_in_one_text_never_reach_the_world() -> None:
    env = FakeEnv()
    policy = FakePolicy(say=lambda episode, observation, turn: "Action: x\nAction: y")
    result = play(env, policy, action_rule=REACT, episode=make_episode(horizon=2))
    assert env.steps == []
    assert [(turn.observation, turn.action, turn.valid, turn.reward) for turn in result.turns] == [
        ("task 0", "", False, 0.0),
        ("One action only.", "", False, 0.0),
    ]


CAUSES = [cause for cause in InfraCause if cause is not InfraCause.TIMEOUT]


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("call", ["open", "reset", "step"])
def test_promise_02_a_worlds_failure_is_an_infra_error_without_reward(call: str, cause: InfraCause) -> None:
    env = FakeEnv(fault=at(call, EnvFailure(cause, "it broke")))
    result = play(env)
    assert (result.stop, result.outcome, result.truncated, result.reward) == (StopReason.ENV_ERROR, Outcome.INFRA_ERROR, False, None)
    assert (result.cause, result.detail) == (cause, "it broke")
    assert env.left_open == set()


def test_promise_02_a_failure_after_rewards_still_has_no_reward() -> None:
    def broken_later(task: int, action: str, turn: int) -> StepReply:
        if turn == 3:
            raise EnvFailure(InfraCause.RESET, "gone")
        return StepReply(observation="fine", reward=1.0, done=False)

    result = play(FakeEnv(answer=broken_later), rules=make_rules(reward_kind="per_step"))
    assert (result.outcome, result.reward) == (Outcome.INFRA_ERROR, None)
    assert [(turn.action, turn.reward) for turn in result.turns] == [("a1", 1.0), ("a2", 1.0), ("a3", None)]
    assert result.final_observation == "fine"


def test_a_timeout_that_the_client_reports_is_a_deadline_of_the_world() -> None:
    result = play(FakeEnv(fault=at("step", EnvFailure(InfraCause.TIMEOUT, "late"))))
    assert (result.stop, result.outcome, result.cause) == (StopReason.ENV_DEADLINE, Outcome.INFRA_ERROR, InfraCause.TIMEOUT)


@pytest.mark.parametrize("call", ["open", "reset", "step"])
def test_a_world_that_hangs_spends_its_deadline(call: str) -> None:
    env = FakeEnv(fault=at(call, "hang"))
    result = play(env)
    assert (result.stop, result.outcome, result.cause, result.reward) == (StopReason.ENV_DEADLINE, Outcome.INFRA_ERROR, InfraCause.TIMEOUT, None)
    assert result.env_seconds == pytest.approx(BUDGETS.env_call_seconds)
    assert result.detail == "env call: expected an answer within 10 s, got none"
    assert env.left_open == set()


def test_a_policy_that_hangs_spends_its_deadline_and_fails() -> None:
    policy = FakePolicy(seconds=lambda turn: 1e9 if turn == 2 else 0.0)
    env = FakeEnv(answer=solve_in(3))
    result = play(env, policy)
    assert (result.stop, result.outcome, result.truncated, result.cause) == (StopReason.POLICY_DEADLINE, Outcome.FAILURE, True, None)
    assert (result.reward, len(result.turns)) == (0.0, 1)
    assert result.policy_seconds == pytest.approx(BUDGETS.policy_call_seconds)
    assert env.left_open == set() and policy.closed == 1


def test_the_episodes_deadline_counts_against_the_policy_while_it_thinks() -> None:
    policy = FakePolicy(seconds=lambda turn: 50.0)
    result = play(FakeEnv(answer=solve_in(99)), policy, episode=make_episode(horizon=99))
    assert (result.stop, result.outcome, len(result.turns)) == (StopReason.POLICY_DEADLINE, Outcome.FAILURE, 5)
    assert result.detail == "policy call: expected the episode to end within 300 s, got no end"
    assert result.seconds == pytest.approx(300.0)


def test_the_episodes_deadline_counts_against_the_world_while_it_works() -> None:
    env = FakeEnv(answer=solve_in(99), seconds=lambda call, session: 8.0 if call == "step" else 0.0)
    result = play(env, episode=make_episode(horizon=99))
    assert (result.stop, result.outcome, len(result.turns)) == (StopReason.ENV_DEADLINE, Outcome.INFRA_ERROR, 38)
    assert result.detail == "env call: expected the episode to end within 300 s, got no end"


def test_a_late_answer_counts_against_the_side_that_gave_it() -> None:
    def slow_thinker(episode: ScheduledEpisode, observation: str, turn: int) -> str:
        hold_up(400.0)
        return "a"

    env = FakeEnv()
    result = play(env, FakePolicy(say=slow_thinker))
    assert (result.stop, result.outcome) == (StopReason.POLICY_DEADLINE, Outcome.FAILURE)
    assert env.steps == [] and env.left_open == set()


def test_a_session_that_opens_late_is_closed() -> None:
    def slow_opening(call: str, session: int) -> None:
        if call == "open":
            hold_up(400.0)

    env = FakeEnv(fault=slow_opening)
    result = play(env)
    assert (result.stop, env.opened, env.closed) == (StopReason.ENV_DEADLINE, [0], [0])


def test_times_of_both_sides_are_kept_apart() -> None:
    env = FakeEnv(answer=solve_in(2), seconds=lambda call, session: {"open": 1.0, "reset": 2.0, "step": 4.0, "close": 8.0}[call])
    result = play(env, FakePolicy(seconds=lambda turn: 16.0 * turn))
    assert [(turn.policy_seconds, turn.env_seconds) for turn in result.turns] == [(16.0, 4.0), (32.0, 4.0)]
    assert (result.policy_seconds, result.env_seconds) == (48.0, 11.0)


def test_a_full_context_cuts_the_episode() -> None:
    def say(episode: ScheduledEpisode, observation: str, turn: int) -> str | Exception:
        return ContextFull() if turn == 3 else "a"

    result = play(FakeEnv(answer=solve_in(9)), FakePolicy(say=say))
    assert (result.stop, result.outcome, result.truncated, result.reward) == (StopReason.CONTEXT, Outcome.FAILURE, True, 0.0)
    assert len(result.turns) == 2


def test_a_first_observation_that_does_not_fit_is_a_failure_without_turns() -> None:
    result = play(FakeEnv(), FakePolicy(say=lambda episode, observation, turn: ContextFull()))
    assert (result.stop, result.outcome, result.reward, result.turns, result.prompt_tokens) == (StopReason.CONTEXT, Outcome.FAILURE, 0.0, (), 0)


@pytest.mark.parametrize(
    ("failure", "stop", "cause"),
    [
        (PolicyUnavailable("no answer"), StopReason.POLICY_UNAVAILABLE, None),
        (PolicyUnavailable("late", cause=InfraCause.TIMEOUT), StopReason.POLICY_UNAVAILABLE, InfraCause.TIMEOUT),
        (PolicyProtocol("no ids"), StopReason.POLICY_PROTOCOL, InfraCause.PROTOCOL),
    ],
)
def test_a_policy_that_fails_is_an_infra_error_with_its_cause(failure: Exception, stop: StopReason, cause: InfraCause | None) -> None:
    env = FakeEnv()
    result = play(env, FakePolicy(say=lambda episode, observation, turn: failure))
    assert (result.stop, result.outcome, result.cause, result.reward) == (stop, Outcome.INFRA_ERROR, cause, None)
    assert result.detail == str(failure)
    assert env.left_open == set()


def test_other_task_content_than_pinned_is_an_infra_error_that_says_so() -> None:
    env = FakeEnv()
    result = play(env, episode=make_episode(digest=content_digest("task 1")))
    assert (result.stop, result.outcome, result.cause) == (StopReason.ENV_ERROR, Outcome.INFRA_ERROR, InfraCause.PROTOCOL)
    assert "task 0: expected a first observation with digest" in result.detail and "content differs from the pinned one" in result.detail
    assert env.steps == [] and env.left_open == set()


def test_the_content_of_another_pinned_task_is_explained_by_the_servers_order() -> None:
    pinned = PinnedTasks(numbers={content_digest("task 0"): 12, content_digest("task 5"): 0}, order_note="ids are not portable")
    result = play(FakeEnv(), episode=make_episode(digest=content_digest("task 5")), rules=replace(make_rules(), pinned=pinned))
    assert (result.outcome, result.cause, result.reward) == (Outcome.INFRA_ERROR, InfraCause.PROTOCOL, None)
    assert result.detail == ("fake_0: task 0 is what the list has as 12: the server's order differs from the pinned one; ids are not portable")


def test_the_pinned_task_content_is_played() -> None:
    assert play(FakeEnv(), episode=make_episode(digest=content_digest("task 0"))).outcome is Outcome.SUCCESS


def test_a_bug_of_the_policy_is_logged_and_never_a_reward(caplog: pytest.LogCaptureFixture) -> None:
    result = play(FakeEnv(), FakePolicy(say=lambda episode, observation, turn: ZeroDivisionError("oops")))
    assert (result.stop, result.outcome, result.reward) == (StopReason.POLICY_PROTOCOL, Outcome.INFRA_ERROR, None)
    assert result.detail == "unexpected ZeroDivisionError: oops"
    assert "Traceback" in caplog.text


def test_a_bug_behind_the_world_is_logged_and_never_a_reward(caplog: pytest.LogCaptureFixture) -> None:
    result = play(FakeEnv(fault=at("step", KeyError("observation"))))
    assert (result.stop, result.cause, result.outcome) == (StopReason.ENV_ERROR, InfraCause.PROTOCOL, Outcome.INFRA_ERROR)
    assert "Traceback" in caplog.text


def test_a_timeout_of_the_policys_own_is_no_budget(caplog: pytest.LogCaptureFixture) -> None:
    result = play(FakeEnv(), FakePolicy(say=lambda episode, observation, turn: TimeoutError("socket")))
    assert result.stop is StopReason.POLICY_PROTOCOL


@pytest.mark.parametrize("broken", [AssertionError("ours"), StoreError("disk full")])
def test_a_broken_run_is_raised_with_the_session_closed(broken: Exception) -> None:
    env = FakeEnv()
    with pytest.raises(type(broken)):
        play(env, FakePolicy(say=lambda episode, observation, turn: broken))
    assert env.closed == [0]


def test_details_are_bounded() -> None:
    result = play(FakeEnv(fault=at("reset", EnvFailure(InfraCause.REPORTED_ERROR, "x" * 100_000))))
    assert len(result.detail) == 2_000


def test_promise_11_hostile_observations_are_only_text() -> None:
    hostile = "\x1b[2J{0} %s <|im_end|> '; drop table runs; -- !!python/object ../../etc\x00\ud800"
    env = FakeEnv(first=lambda index: hostile, answer=lambda task, action, turn: StepReply(observation=hostile, reward=1.0, done=True))
    result = play(env, FakePolicy(say=lambda episode, observation, turn: observation))
    assert (result.outcome, result.turns[0].observation, result.final_observation) == (Outcome.SUCCESS, hostile, hostile)


@pytest.mark.parametrize("call", ["open", "reset", "step"])
def test_promise_10_a_cancelled_episode_closes_its_session_and_leaves_no_result(call: str) -> None:
    env = FakeEnv(fault=at(call, "hang"), seconds=lambda made, session: 3.0 if made == "close" else 0.0)
    policy = FakePolicy()

    async def cancelled() -> None:
        task = asyncio.ensure_future(
            run_episode(make_episode(), attempt=1, seed=7, policy=policy, env=env, rules=make_rules(), action_rule=PLAIN, budgets=BUDGETS)
        )
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert env.released == env.opened

    run_virtual(cancelled())
    assert policy.closed == (0 if call == "open" else 1)


def test_a_close_that_hangs_is_given_up_after_the_env_deadline(caplog: pytest.LogCaptureFixture) -> None:
    env = FakeEnv(fault=at("close", "hang"))

    async def timed() -> tuple[AttemptResult, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        result = await run_episode(
            make_episode(), attempt=1, seed=7, policy=FakePolicy(), env=env, rules=make_rules(), action_rule=PLAIN, budgets=BUDGETS
        )
        return result, loop.time() - began

    result, seconds = run_virtual(timed())
    assert (result.outcome, seconds) == (Outcome.SUCCESS, pytest.approx(10.0))
    assert "close of a session" in caplog.text


@pytest.mark.parametrize("error", [EnvFailure(InfraCause.SERVER_5XX, "no"), RuntimeError("no")])
def test_a_close_that_fails_costs_no_result(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        result = play(FakeEnv(fault=at("close", error)))
    assert result.outcome is Outcome.SUCCESS
    assert "expected it to end quietly" in caplog.text


def test_a_close_that_breaks_a_guarantee_of_ours_is_raised() -> None:
    with pytest.raises(AssertionError, match="ours"):
        play(FakeEnv(fault=at("close", AssertionError("ours"))))


def test_promise_10_a_cancellation_during_the_close_is_raised_after_it() -> None:
    env = FakeEnv(seconds=lambda call, session: 3.0 if call == "close" else 0.0)

    async def cancelled() -> None:
        attempt = run_episode(make_episode(), attempt=1, seed=7, policy=FakePolicy(), env=env, rules=make_rules(), action_rule=PLAIN, budgets=BUDGETS)
        task = asyncio.ensure_future(attempt)
        await asyncio.sleep(1)
        assert env.closed == [0] and env.released == []
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert env.released == [0]

    run_virtual(cancelled())
