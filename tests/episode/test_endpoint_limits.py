"""The limits of a recipe on requests to a server: they hold requests back and count against nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.episode.types import AttemptResult, Outcome, StopReason
from agentgym_cli.recipe.schema.world import BudgetsSpec
from tests.episode.endpoints import BUDGETS, Setting, one_episode, spec_with
from tests.episode.fakes import FakeEnv
from tests.episode.llm_server import LlmStub
from tests.episode.virtual_time import run_virtual


def all_played(setting: Setting, count: int, budgets: BudgetsSpec = BUDGETS) -> list[AttemptResult]:
    """As many episodes of one turn, all at once."""

    async def play() -> list[AttemptResult]:
        policy = await setting.policy()
        return list(await asyncio.gather(*(one_episode(policy, FakeEnv(), budgets=budgets, index=number) for number in range(count))))

    return run_virtual(play())


@pytest.mark.parametrize("total", [-(10**12), 0, 2**40, True, "9"], ids=str)
def test_totals_that_are_none_move_no_pace(total: Json) -> None:
    usage: Json = {"prompt_tokens": 6, "completion_tokens": 1, "total_tokens": total}
    stub = LlmStub(fault=lambda number: (200, {}, {"choices": [{"message": {"content": "a"}}], "usage": usage}))
    all_played(Setting(stub=stub, spec=spec_with(tokens_per_minute=600.0)), 2)
    # The check was taken for one token, a tenth of a second, and the first turn for the 32 of its room.
    assert [after - before for before, after in zip(stub.started, stub.started[1:], strict=False)] == pytest.approx([0.1, 3.2])


def test_no_more_requests_are_in_flight_than_the_recipe_allows() -> None:
    stub = LlmStub(seconds=1.0)
    results = all_played(Setting(stub=stub, spec=spec_with(max_in_flight=3)), 12)
    assert ({result.outcome for result in results}, stub.most_open) == ({Outcome.SUCCESS}, 3)


def test_requests_are_spread_over_the_minute() -> None:
    stub = LlmStub()
    results = all_played(Setting(stub=stub, spec=spec_with(requests_per_minute=120.0)), 9)
    assert {result.outcome for result in results} == {Outcome.SUCCESS}
    assert [after - before for before, after in zip(stub.started, stub.started[1:], strict=False)] == pytest.approx([0.5] * 9)


def test_tokens_are_spread_over_the_minute_as_they_are_used() -> None:
    stub = LlmStub(say=lambda fields, number: "ab")
    results = all_played(Setting(stub=stub, spec=spec_with(tokens_per_minute=600.0)), 1)
    assert results[0].outcome is Outcome.SUCCESS
    # The check was taken for one token and used 6 + 1, "Hello" with its end and an "a": 0.7 s at ten a second.
    assert stub.started[1] - stub.started[0] == pytest.approx(0.7)


def test_a_wait_for_ones_own_limits_counts_against_no_deadline() -> None:
    # One request a minute: the eighth starts 480 s behind the check's, beyond the call's 60 s, the episode's 300 s and the time of an outage.
    short = replace(BUDGETS, episode_seconds=300.0)
    stub = LlmStub()
    results = all_played(Setting(stub=stub, spec=spec_with(requests_per_minute=1.0), budgets=short), 8, short)
    assert {result.stop for result in results} == {StopReason.DONE}
    assert sorted(result.seconds for result in results) == pytest.approx([60.0 * place for place in range(1, 9)])
    assert {result.policy_seconds for result in results} == {0.0}


def test_a_place_among_the_requests_in_flight_is_waited_for_beyond_a_calls_deadline() -> None:
    stub = LlmStub(seconds=50.0)
    results = all_played(Setting(stub=stub, spec=spec_with(max_in_flight=1)), 14)
    assert {result.stop for result in results} == {StopReason.DONE}
    assert [result.policy_seconds for result in results] == pytest.approx([50.0] * 14)


def test_a_busy_server_is_asked_again_at_ones_own_pace_and_its_outage_is_not_charged_with_it() -> None:
    stub = LlmStub(fault=lambda number: 503 if number in (1, 2) else None)
    results = all_played(Setting(stub=stub, spec=spec_with(requests_per_minute=1.0, retry_seconds=10.0)), 1)
    assert [result.stop for result in results] == [StopReason.DONE]
    assert [after - before for before, after in zip(stub.started, stub.started[1:], strict=False)] == pytest.approx([60.0] * 3)


def test_a_server_that_hangs_still_spends_the_policys_deadline_behind_a_wait() -> None:
    stub = LlmStub(fault=lambda number: None if number == 0 else "hang")
    results = all_played(Setting(stub=stub, spec=spec_with(requests_per_minute=1.0)), 1)
    assert [(result.stop, result.seconds, result.policy_seconds) for result in results] == [(StopReason.POLICY_DEADLINE, 120.0, 60.0)]


def test_episodes_that_are_cancelled_leave_no_request_behind() -> None:
    stub = LlmStub(seconds=30.0)

    async def play() -> int:
        policy = await Setting(stub=stub, spec=spec_with(max_in_flight=1)).policy()
        tasks = [asyncio.ensure_future(one_episode(policy, FakeEnv(), budgets=BUDGETS, index=number)) for number in range(4)]
        await asyncio.sleep(1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stub.seconds = 0.0
        assert (await one_episode(policy, FakeEnv(), budgets=BUDGETS)).outcome is Outcome.SUCCESS
        return stub.open

    assert run_virtual(play()) == 0


def test_a_request_that_is_cancelled_while_it_waits_gives_its_place_back() -> None:
    async def places() -> tuple[float, bool]:
        gate = Gate(requests_per_minute=1.0, tokens_per_minute=None, in_flight=2)
        now = asyncio.get_running_loop().time
        await gate.enter(1)
        began, waiting = now(), asyncio.ensure_future(gate.enter(1))
        await asyncio.sleep(1.0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await gate.enter(1)
        return now() - began, waiting.cancelled()

    assert run_virtual(places()) == (60.0, True)
