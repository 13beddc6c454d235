"""Schedules: every episode gets its result, retries are attempts, a kill loses nothing that was recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.episode.policies.failures import PolicyUnavailable
from agentgym_cli.episode.runner import EpisodeResult, run_schedule
from agentgym_cli.episode.seeds import episode_seed
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason
from agentgym_cli.errors import PolicyError, StoreError
from agentgym_cli.recipe.schema.world import Cause, CauseAttempts, RetrySpec
from tests.episode.fakes import BUDGETS, PLAIN, FakeEnv, FakePolicy, Fault, make_episode, make_rules, solve_in
from tests.episode.virtual_time import run_virtual

BROKEN = EnvFailure(InfraCause.SERVER_5XX, "broken")


def schedule(count: int, *, horizon: int = 3) -> list[ScheduledEpisode]:
    return [make_episode(index, horizon=horizon) for index in range(count)]


async def run(
    scheduled: Sequence[ScheduledEpisode],
    env: FakeEnv,
    policy: FakePolicy | None = None,
    *,
    attempts: int = 3,
    causes: tuple[Cause, ...] = RetrySpec().causes,
    per_cause: CauseAttempts | None = None,
    concurrency: int = 4,
    on_attempt: Callable[[AttemptResult], None] | None = None,
    on_final: Callable[[EpisodeResult], None] | None = None,
    recorded: Mapping[str, Sequence[AttemptResult]] | None = None,
    verified: bool = False,
) -> list[EpisodeResult]:
    return await run_schedule(
        scheduled,
        policy=policy or FakePolicy(),
        env=env,
        rules=make_rules(verified=verified),
        action_rule=PLAIN,
        budgets=BUDGETS,
        retry=RetrySpec(attempts=attempts, causes=causes, per_cause=per_cause or CauseAttempts()),
        concurrency=concurrency,
        run_seed=5,
        on_attempt=on_attempt,
        on_final=on_final,
        recorded=recorded,
    )


def broken_sessions(numbers: Sequence[int], call: str = "step") -> Callable[[str, int], Fault]:
    return lambda made, session: BROKEN if made == call and session in numbers else None


def test_an_empty_schedule_has_no_results() -> None:
    assert run_virtual(run([], FakeEnv())) == []


FAULTS = st.sampled_from([None, BROKEN, "hang", RuntimeError("bug"), EnvFailure(InfraCause.TIMEOUT, "late")])


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 7),
    faults=st.dictionaries(st.tuples(st.sampled_from(["open", "reset", "step", "close"]), st.integers(0, 12)), FAULTS),
    seconds=st.lists(st.floats(0, 12), min_size=1, max_size=5),
    concurrency=st.integers(1, 5),
    attempts=st.integers(1, 3),
    wave=st.sampled_from([None, 1, 3]),
)
def test_promise_01_every_scheduled_episode_has_exactly_one_outcome(
    count: int, faults: dict[tuple[str, int], Fault], seconds: list[float], concurrency: int, attempts: int, wave: int | None
) -> None:
    env = FakeEnv(
        answer=solve_in(2), fault=lambda call, session: faults.get((call, session)), seconds=lambda call, session: seconds[session % len(seconds)]
    )
    made: list[AttemptResult] = []
    final: list[EpisodeResult] = []
    scheduled = schedule(count)
    results = run_virtual(
        run(scheduled, env, FakePolicy(wave=wave), attempts=attempts, concurrency=concurrency, on_attempt=made.append, on_final=final.append)
    )
    assert [result.episode for result in results] == scheduled
    assert sorted(result.episode.id for result in final) == sorted(episode.id for episode in scheduled)
    assert sum(len(result.attempts) for result in results) == len(made)
    for result in results:
        assert [attempt.attempt for attempt in result.attempts] == list(range(1, len(result.attempts) + 1))
        assert result.final.outcome in (Outcome.SUCCESS, Outcome.FAILURE) or len(result.attempts) == attempts
        assert all(attempt.outcome is Outcome.INFRA_ERROR and attempt.reward is None for attempt in result.attempts[:-1])
    assert env.left_open == set()
    assert env.most_open <= concurrency


def test_promise_03_a_retry_is_a_further_attempt_of_the_same_task_with_its_own_seed() -> None:
    env = FakeEnv(fault=broken_sessions([0, 1]))
    [result] = run_virtual(run(schedule(1), env))
    assert [(a.attempt, a.outcome, a.episode.task.id) for a in result.attempts] == [
        (1, Outcome.INFRA_ERROR, "fake_0"),
        (2, Outcome.INFRA_ERROR, "fake_0"),
        (3, Outcome.SUCCESS, "fake_0"),
    ]
    assert [a.seed for a in result.attempts] == [episode_seed(5, result.episode.id, number) for number in (1, 2, 3)]
    assert result.final.attempt == 3


def test_promise_03_no_more_attempts_than_the_recipe_allows() -> None:
    env = FakeEnv(fault=lambda call, session: BROKEN if call == "reset" else None)
    [result] = run_virtual(run(schedule(1), env, attempts=2))
    assert len(result.attempts) == 2
    assert result.final.outcome is Outcome.INFRA_ERROR
    assert env.opened == [0, 1]


def test_promise_03_a_cause_that_the_recipe_does_not_name_is_final_at_the_first_attempt() -> None:
    env = FakeEnv(fault=lambda call, session: BROKEN if session == 0 else EnvFailure(InfraCause.TIMEOUT, "late"))
    [result] = run_virtual(run(schedule(1), env, attempts=3, causes=("server_5xx",)))
    assert [(attempt.attempt, attempt.cause) for attempt in result.attempts] == [(1, InfraCause.SERVER_5XX), (2, InfraCause.TIMEOUT)]


@pytest.mark.parametrize(
    ("per_cause", "made"),
    [
        (CauseAttempts(), 4),
        (CauseAttempts(server_5xx=1), 1),
        (CauseAttempts(timeout=1), 2),
        (CauseAttempts(server_5xx=2), 3),
        (CauseAttempts(reset=1), 4),
    ],
)
def test_promise_03_no_more_attempts_end_in_a_cause_than_the_recipe_allows_it(per_cause: CauseAttempts, made: int) -> None:
    """By turns server_5xx, timeout, server_5xx, timeout."""
    late = EnvFailure(InfraCause.TIMEOUT, "late")
    env = FakeEnv(fault=lambda call, session: None if call != "step" else late if session % 2 else BROKEN)
    [result] = run_virtual(run(schedule(1), env, attempts=4, per_cause=per_cause))
    assert len(result.attempts) == made
    assert {attempt.outcome for attempt in result.attempts} == {Outcome.INFRA_ERROR}


def test_a_failure_of_the_policy_is_never_tried_again() -> None:
    [result] = run_virtual(run(schedule(1), FakeEnv(answer=solve_in(99))))
    assert [(a.attempt, a.outcome, a.stop) for a in result.attempts] == [(1, Outcome.FAILURE, StopReason.HORIZON)]


def test_retries_wait_until_all_have_run_and_pause_longer_each_time() -> None:
    finished: list[tuple[str, int, float]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        env = FakeEnv(fault=lambda call, session: BROKEN if call == "step" and session != 1 else None)
        await run(schedule(2), env, on_attempt=lambda a: finished.append((a.episode.task.id, a.attempt, loop.time() - began)))

    run_virtual(main())
    assert finished == [("fake_0", 1, 0.0), ("fake_1", 1, 0.0), ("fake_0", 2, 1.0), ("fake_0", 3, 3.0)]


def test_waves_run_one_after_the_other_and_retry_in_their_own_wave() -> None:
    order: list[tuple[str, int]] = []
    env = FakeEnv(fault=broken_sessions([0, 3]), seconds=lambda call, session: 5.0 if session == 1 and call == "step" else 0.0)
    run_virtual(run(schedule(4), env, FakePolicy(wave=2), on_attempt=lambda a: order.append((a.episode.task.id, a.attempt))))
    assert sorted(order[:2]) == [("fake_0", 1), ("fake_1", 1)]
    assert sorted(order[2:4]) == [("fake_2", 1), ("fake_3", 1)]
    assert order[4:] == [("fake_0", 2), ("fake_3", 2)]


def test_an_attempt_is_recorded_before_its_episode_is_final() -> None:
    events: list[str] = []
    run_virtual(
        run(
            schedule(1),
            FakeEnv(fault=broken_sessions([0])),
            on_attempt=lambda a: events.append(f"attempt {a.attempt}"),
            on_final=lambda r: events.append(f"final {r.final.attempt} of {len(r.attempts)}"),
        )
    )
    assert events == ["attempt 1", "attempt 2", "final 2 of 2"]


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_concurrency_is_bounded_and_used(concurrency: int) -> None:
    env = FakeEnv(seconds=lambda call, session: 1.0)
    run_virtual(run(schedule(12), env, concurrency=concurrency))
    assert env.most_open == min(concurrency, 12)


def crash_on(action: str) -> Callable[[int, str, int], StepReply]:
    def answer(task: int, said: str, turn: int) -> StepReply:
        if said == action:
            raise EnvFailure(InfraCause.SERVER_5XX, "crash")
        return StepReply(observation="", reward=0.0, done=False)

    return answer


def test_an_error_that_comes_back_on_the_same_action_is_marked() -> None:
    policy = FakePolicy(say=lambda episode, observation, turn: "bomb" if turn == 2 else f"a{turn}")
    [result] = run_virtual(run(schedule(1), FakeEnv(answer=crash_on("bomb")), policy))
    assert [a.action_induced for a in result.attempts] == [False, True, True]


def test_a_verifier_that_fails_behind_the_same_action_is_marked() -> None:
    env = FakeEnv(fault=lambda call, session: BROKEN if call == "verify" else None)
    [result] = run_virtual(run(schedule(1), env, verified=True))
    assert [(a.stop, a.action_induced) for a in result.attempts] == [(StopReason.ENV_ERROR, induced) for induced in (False, True, True)]


def test_errors_on_different_actions_are_not_marked() -> None:
    texts = iter(["x", "y", "z"])
    policy = FakePolicy(say=lambda episode, observation, turn: next(texts))
    [result] = run_virtual(run(schedule(1), FakeEnv(fault=lambda call, session: BROKEN if call == "step" else None), policy))
    assert [a.turns[-1].action for a in result.attempts] == ["x", "y", "z"]
    assert [a.action_induced for a in result.attempts] == [False, False, False]


def test_errors_away_from_an_action_are_not_marked() -> None:
    env = FakeEnv(fault=lambda call, session: BROKEN if call == "reset" else None)
    [result] = run_virtual(run(schedule(1), env))
    assert [a.action_induced for a in result.attempts] == [False, False, False]


def test_a_policy_that_fails_behind_the_same_action_is_not_marked() -> None:
    def say(episode: ScheduledEpisode, observation: str, turn: int) -> str | Exception:
        return PolicyUnavailable("down") if turn == 2 else "same"

    [result] = run_virtual(run(schedule(1), FakeEnv(answer=solve_in(9)), FakePolicy(say=say)))
    assert [(a.stop, a.action_induced) for a in result.attempts] == [(StopReason.POLICY_UNAVAILABLE, False)] * 3


def test_promise_10_a_full_disk_stops_the_run_with_every_session_closed() -> None:
    env = FakeEnv(seconds=lambda call, session: 1.0 + session)
    made: list[AttemptResult] = []

    def record(result: AttemptResult) -> None:
        if len(made) == 2:
            raise StoreError("journal: expected room on the disk, got none")
        made.append(result)

    with pytest.raises(StoreError, match="room on the disk"):
        run_virtual(run(schedule(20), env, on_attempt=record))
    assert len(made) == 2
    assert env.left_open == set()


def test_a_broken_policy_stops_the_run_with_every_session_closed() -> None:
    env = FakeEnv()
    with pytest.raises(PolicyError, match="no weights"):
        run_virtual(run(schedule(5), env, FakePolicy(say=lambda episode, observation, turn: PolicyError("no weights"))))
    assert env.left_open == set()


def test_promise_10_a_cancelled_run_closes_its_sessions_and_records_nothing_of_them() -> None:
    env = FakeEnv(answer=solve_in(2), seconds=lambda call, session: 2.0)
    made: list[AttemptResult] = []

    async def main() -> None:
        task = asyncio.ensure_future(run(schedule(8), env, concurrency=8, on_attempt=made.append))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())
    assert made == []
    assert len(env.opened) == 8 and env.left_open == set()


def without_times(results: Sequence[EpisodeResult]) -> list[Any]:
    return [
        [
            replace(a, seconds=0.0, policy_seconds=0.0, env_seconds=0.0, replica="", turns=tuple(replace(t, env_seconds=0.0) for t in a.turns))
            for a in result.attempts
        ]
        for result in results
    ]


@pytest.mark.parametrize("kept", range(9))
def test_promise_10_a_run_that_goes_on_makes_the_attempts_of_an_uninterrupted_one(kept: int) -> None:
    def world() -> FakeEnv:
        return FakeEnv(answer=lambda task, action, turn: crash_on("a2")(task, action, turn) if task == 1 else solve_in(2)(task, action, turn))

    whole: list[AttemptResult] = []
    uninterrupted = run_virtual(run(schedule(4), world(), FakePolicy(), on_attempt=whole.append))
    recorded: dict[str, list[AttemptResult]] = {}
    for attempt in whole[:kept]:
        recorded.setdefault(attempt.episode.id, []).append(attempt)
    again: list[AttemptResult] = []
    resumed = run_virtual(run(schedule(4), world(), FakePolicy(), on_attempt=again.append, recorded=recorded))
    assert without_times(resumed) == without_times(uninterrupted)
    assert len(again) == len(whole) - min(kept, len(whole))


def test_what_was_recorded_as_final_is_announced_and_not_run_again() -> None:
    [first] = run_virtual(run(schedule(1), FakeEnv()))
    env = FakeEnv()
    final: list[EpisodeResult] = []
    results = run_virtual(run(schedule(2), env, on_final=final.append, recorded={first.episode.id: first.attempts}))
    assert [result.episode.task.id for result in final] == ["fake_0", "fake_1"]
    assert results[0] == first
    assert env.opened == [0]


def test_a_schedule_that_names_an_episode_twice_is_refused() -> None:
    with pytest.raises(AssertionError, match="once"):
        run_virtual(run([make_episode(0), make_episode(0)], FakeEnv()))
