"""What a server's counts of tokens are taken for, and what stands where it gives none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.types import AttemptResult, Outcome, StopReason
from tests.episode.endpoints import BUDGETS, Setting, one_episode, played
from tests.episode.fakes import FakeEnv, solve_in
from tests.episode.llm_server import LlmStub
from tests.episode.virtual_time import run_virtual


def usage_of(read: Json, sampled: Json) -> Callable[[int], Any]:
    """Answers whose first, the check's, counts well, and whose others count so."""

    def answer(number: int) -> Any:
        said: Json = (
            {"prompt_tokens": read, "completion_tokens": sampled, "total_tokens": read} if number else {"prompt_tokens": 6, "completion_tokens": 1}
        )
        return 200, {}, {"choices": [{"message": {"content": "go"}}], "usage": said}

    return answer


def test_tokens_are_counted_as_the_server_counts_them() -> None:
    result, policy = played(Setting(stub=LlmStub(say=lambda fields, number: "ab")))
    # "task 0" and its end are 7 ids in the stub's vocabulary; "ab" and its end are 3.
    assert (result.turns[0].context_tokens, result.turns[0].response_tokens) == (7, 3)
    assert (result.prompt_tokens, result.action_tokens) == (7, 3)
    assert policy.notes == {}


def test_a_server_that_does_not_count_is_noted_once() -> None:
    result, policy = played(Setting(stub=LlmStub(usage=False)), FakeEnv(answer=solve_in(2)))
    assert (result.outcome, result.turns[0].response_tokens) == (Outcome.SUCCESS, 0)
    assert list(policy.notes) == ["usage"]


@pytest.mark.parametrize("count", [-1, True, 3.5, "7", 2**63], ids=str)
def test_counts_that_are_none_are_not_taken(count: Json) -> None:
    body: Json = {"choices": [{"message": {"content": "go"}}], "usage": {"prompt_tokens": count, "completion_tokens": count}}
    result, policy = played(Setting(stub=LlmStub(fault=lambda number: (200, {}, body))))
    assert (result.turns[0].context_tokens, result.turns[0].response_tokens, list(policy.notes)) == (0, 0, ["usage"])


@pytest.mark.parametrize("context", [8192, None])
def test_a_count_that_no_prompt_so_long_can_have_never_fills_the_context(context: int | None) -> None:
    stub = LlmStub(fault=usage_of(2**31 - 1, 2), models=[{"id": "stub", "max_model_len": context}])
    result, policy = played(Setting(stub=stub), FakeEnv(answer=solve_in(2)))
    assert (result.outcome, list(policy.notes)) == (Outcome.SUCCESS, ["usage"])


def test_a_count_within_the_models_context_and_beyond_the_budgets_fills_it() -> None:
    stub = LlmStub(fault=usage_of(1025, 2), models=[{"id": "stub", "max_model_len": 8192}])
    result, _ = played(Setting(stub=stub), FakeEnv(answer=solve_in(2)))
    assert result.stop is StopReason.CONTEXT


def test_what_a_reply_does_not_count_is_taken_for_the_most_it_can_be_where_others_are_counted() -> None:
    stub = LlmStub(fault=usage_of(None, None))
    result, policy = played(Setting(stub=stub, system_prompt="Be brief."), FakeEnv(answer=solve_in(2)))
    # A token for every byte and 16 a message: "Be brief." and "task 0", then "go" and "after go" behind them; 32 tokens of room.
    assert [(turn.context_tokens, turn.response_tokens) for turn in result.turns] == [(9 + 6 + 32, 32), (9 + 6 + 2 + 8 + 64, 32)]
    assert policy.notes == {"usage": "some replies do not count their tokens: the most that these can be stand for them"}


def test_a_limit_of_the_run_holds_where_replies_stop_counting() -> None:
    stub = LlmStub(fault=usage_of(None, None))
    setting = Setting(stub=stub, budgets=replace(BUDGETS, run_tokens=100))

    async def play() -> AttemptResult:
        return await one_episode(await setting.policy(), FakeEnv(answer=solve_in(9)), budgets=setting.budgets)

    result = run_virtual(play())
    # (6 + 16 + 32) and then (6 + 2 + 8 + 48 + 32) tokens at most.
    assert (result.stop, len(result.turns)) == (StopReason.RUN_BUDGET, 2)
