"""When a server of a model that gives no answers ends the run, and when it is there all the same."""

from __future__ import annotations

import pytest

from agentgym_cli.env.contract import ServersLost
from agentgym_cli.episode.types import AttemptResult, StopReason
from agentgym_cli.errors import ExitCode
from tests.episode.endpoints import Setting, one_episode, spec_with
from tests.episode.fakes import FakeEnv
from tests.episode.llm_server import LlmStub
from tests.episode.virtual_time import run_virtual


def one_by_one(stub: LlmStub, count: int, *, give_up_after: int, retry_seconds: float = 0.0) -> list[AttemptResult]:
    """As many episodes of one turn, one after the other."""
    setting = Setting(stub=stub, spec=spec_with(retry_seconds=retry_seconds), give_up_after=give_up_after)

    async def play() -> list[AttemptResult]:
        policy = await setting.policy()
        return [await one_episode(policy, FakeEnv(), budgets=setting.budgets, index=number) for number in range(count)]

    return run_virtual(play())


def test_a_server_that_is_away_in_every_way_ends_the_run_and_is_named() -> None:
    stub = LlmStub(fault=lambda number: 503 if number else None, listing=lambda number: 503 if number else None)
    with pytest.raises(ServersLost, match="http://llm/v1: expected an answer from the model's server, got none to 3 calls in a row") as caught:
        one_by_one(stub, 9, give_up_after=3)
    assert caught.value.exit_code is ExitCode.ENV
    assert len(stub.asked) == 1 + 3


def test_a_server_that_fails_at_prompts_and_lists_its_models_is_there() -> None:
    stub = LlmStub(fault=lambda number: 500 if number else None)
    results = one_by_one(stub, 7, give_up_after=3)
    assert [result.stop for result in results] == [StopReason.POLICY_UNAVAILABLE] * 7
    # Behind the check's own, once for every three calls without an answer.
    assert stub.listed == 1 + 2


@pytest.mark.parametrize("refusal", [404, 401, 429])
def test_a_server_that_refuses_its_list_is_there(refusal: int) -> None:
    stub = LlmStub(fault=lambda number: 500 if number else None, listing=lambda number: refusal if number else None)
    assert len(one_by_one(stub, 4, give_up_after=2)) == 4


def test_an_answer_in_between_begins_the_count_anew() -> None:
    stub = LlmStub(fault=lambda number: 503 if number % 3 else None, listing=lambda number: 503 if number else None)
    results = one_by_one(stub, 9, give_up_after=3)
    assert [result.stop for result in results].count(StopReason.POLICY_UNAVAILABLE) == 6


def test_refusals_that_are_the_requests_own_are_no_outage() -> None:
    stub = LlmStub(fault=lambda number: 400 if number else None, listing=lambda number: 503 if number else None)
    assert len(one_by_one(stub, 5, give_up_after=2)) == 5
