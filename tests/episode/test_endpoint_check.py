"""The check of an LLM server before a run: what it finds, and what ends a run before its first episode."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentgym_cli.env.caller import HttpCaller
from agentgym_cli.env.contract import InfraCause
from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.policies.build import reach_endpoint
from agentgym_cli.episode.policies.endpoint_call import LlmServer, Refused
from agentgym_cli.episode.policies.endpoint_check import models_of
from agentgym_cli.episode.policies.endpoint_pace import Gate
from agentgym_cli.errors import ExitCode, PolicyError
from tests.episode.endpoints import BUDGETS, Setting, checked, spec_with
from tests.episode.llm_server import LlmStub, breaking, refusing_address, served
from tests.episode.virtual_time import run_virtual

FREE = Gate(requests_per_minute=None, tokens_per_minute=None, in_flight=None)
QWEN: dict[str, Json] = {"id": "qwen", "owned_by": "vllm", "root": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096}


def refusal(setting: Setting) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        checked(setting)
    assert caught.value.exit_code is ExitCode.POLICY
    return caught.value


def test_a_server_of_vllm_passes_with_everything_a_trajectory_needs() -> None:
    found = checked(Setting(stub=LlmStub(models=[QWEN], ids=True), spec=spec_with(model="qwen")))
    assert found.word == "qwen, owned by 'vllm', root 'Qwen/Qwen2.5-7B-Instruct', context 4096"
    assert list(found.passed) == ["model", "answer", "token ids"]
    assert (found.notes, found.manner.token_ids, found.manner.drawn, found.manner.context) == ({}, True, True, 4096)


def test_a_server_without_token_ids_passes_with_a_note() -> None:
    found = checked(Setting(stub=LlmStub()))
    assert (found.notes, found.manner.token_ids) == ({"token ids": "no token ids: this run cannot be trained on"}, False)


def test_where_nobody_asks_for_token_ids_nothing_is_noted() -> None:
    stub = LlmStub(ids=True)
    found = checked(Setting(stub=stub, spec=spec_with(return_token_ids="off")))
    assert (found.notes, "return_token_ids" in stub.asked[0], "logprobs" in stub.asked[0]) == ({}, False, False)


@pytest.mark.parametrize(
    ("unknown", "left"),
    [
        (("return_token_ids",), {"logprobs": True, "max_tokens": 1}),
        (("return_token_ids", "logprobs"), {"max_tokens": 1}),
        (("return_token_ids", "logprobs", "max_tokens"), {"max_completion_tokens": 1}),
    ],
    ids=str,
)
def test_fields_that_a_server_refuses_are_left_out_of_the_run(unknown: tuple[str, ...], left: dict[str, Json]) -> None:
    stub = LlmStub(unknown=unknown)
    found = checked(Setting(stub=stub))
    extras = {"return_token_ids", "logprobs", "max_tokens", "max_completion_tokens"}
    assert {key: value for key, value in found.manner.fields(1, 0).items() if key in extras} == left
    assert "token ids" in found.notes


def test_required_ids_that_are_not_given_end_the_run() -> None:
    failure = refusal(Setting(stub=LlmStub(), spec=spec_with(return_token_ids="required")))
    assert "policy.endpoint.return_token_ids: expected what a trajectory needs, got no token ids" in failure.message


def test_a_model_that_the_server_has_not_is_answered_with_those_it_has() -> None:
    failure = refusal(Setting(stub=LlmStub(models=[QWEN, {"id": "qwen-coder"}]), spec=spec_with(model="qwen-code")))
    assert failure.message == "policy.endpoint.model: expected a model that http://llm/v1 has, got 'qwen-code'"
    assert failure.hint == "it has 'qwen', 'qwen-coder'; did you mean 'qwen-coder'?"


def test_names_of_models_cannot_write_on_the_terminal() -> None:
    failure = refusal(Setting(stub=LlmStub(models=[{"id": "\x1b[2Jevil"}]), spec=spec_with(model="qwen")))
    assert "\x1b" not in f"{failure.message}{failure.hint}"


def test_a_server_without_a_list_is_asked_for_the_model_itself() -> None:
    found = checked(Setting(stub=LlmStub(models=None)))
    assert found.word == "stub, of a server without a list of models"
    failure = refusal(Setting(stub=LlmStub(models=None), spec=spec_with(model="other")))
    assert "HTTP 404" in failure.message
    assert "The model `other` does not exist." in failure.message
    assert "ends in /v1" in (failure.hint or "")


@pytest.mark.parametrize("key", [None, "sk-wrong"])
def test_a_key_that_is_missing_or_wrong_is_said_and_never_shown(key: str | None) -> None:
    failure = refusal(Setting(stub=LlmStub(key="sk-right"), key=key))
    assert "expected the key to be accepted, got HTTP 401 'Incorrect API key provided'" in failure.message
    assert failure.hint == "policy.endpoint.key_variable names the variable with the key"
    assert "sk-" not in f"{failure.message}{failure.hint}"
    assert checked(Setting(stub=LlmStub(key="sk-right"), key="sk-right")).word.startswith("stub")


def test_a_variable_without_a_key_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_KEY_HERE", raising=False)
    with pytest.raises(PolicyError, match=r"policy\.endpoint\.key_variable: expected the environment variable NO_KEY_HERE to be set"):
        reach_endpoint(spec_with(key_variable="NO_KEY_HERE"))


def test_a_server_that_is_still_loading_is_waited_for() -> None:
    stub = LlmStub(fault=lambda number: 503 if number < 4 else None)
    assert checked(Setting(stub=stub)).word.startswith("stub")


def test_a_server_that_keeps_failing_is_given_up_after_half_a_minute() -> None:
    stub = LlmStub(fault=lambda number: 500)
    failure = refusal(Setting(stub=stub))
    assert "HTTP 500" in failure.message
    assert stub.started[-1] - stub.started[0] <= 30.0


@pytest.mark.parametrize("fault", ["html", "broken", (200, {}, {"hello": "world"})], ids=str)
def test_an_answer_that_is_no_completion_ends_the_run(fault: object) -> None:
    failure = refusal(Setting(stub=LlmStub(fault=lambda number: fault)))  # type: ignore[arg-type,return-value]
    assert failure.message.startswith("policy.endpoint: POST http://llm/v1/chat/completions: expected ")
    assert "list of models" not in failure.message
    assert "/v1" in (failure.hint or "")


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"], ids=["at once", "in the middle"])
def test_a_connection_that_is_reset_may_be_tried_again(reply: bytes) -> None:
    async def ask(url: str) -> Refused:
        caller = HttpCaller()
        try:
            await LlmServer(caller, url, gate=FREE).once("POST", "/chat/completions", b"{}", seconds=10.0)
        except Refused as refused:
            return refused
        finally:
            await caller.aclose()
        raise AssertionError("a reply came through")

    with breaking(reply) as url:
        refused = asyncio.run(ask(url))
    assert (refused.cause, refused.again) == (InfraCause.RESET, True)


def models_at(url: str) -> dict[str, dict[str, Json]] | None:
    """What a server on the loopback lists."""

    async def ask() -> dict[str, dict[str, Json]] | None:
        caller = HttpCaller()
        try:
            return await models_of(LlmServer(caller, url, gate=FREE))
        finally:
            await caller.aclose()

    return asyncio.run(ask())


def test_nobody_at_the_address_ends_the_run() -> None:
    with pytest.raises(PolicyError, match=r"policy\.endpoint: GET .*/models: expected a server, got .*Connect call failed") as caught:
        models_at(refusing_address())
    assert caught.value.hint == "is the server running, and is the address right?"


@pytest.mark.parametrize("limit", [{"run_tokens": 1000}, {"run_cost": 1.0}], ids=str)
@pytest.mark.parametrize("usage", [None, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": -5, "completion_tokens": 2**40}], ids=str)
def test_a_limit_of_the_run_is_refused_where_the_server_counts_nothing(limit: dict[str, Any], usage: Json) -> None:
    body: Json = {"choices": [{"message": {"content": "a"}}], "usage": usage}
    failure = refusal(Setting(stub=LlmStub(fault=lambda number: (200, {}, body)), budgets=replace(BUDGETS, **limit)))
    (name,) = limit
    assert failure.message.startswith(f"budgets.{name}: expected a server that counts the tokens of a request in its reply's usage, got none from")
    assert f"budgets.{name}=null" in (failure.hint or "")
    assert checked(Setting(stub=LlmStub(), budgets=replace(BUDGETS, **limit))).manner.counts


def test_log_probabilities_that_are_no_numbers_are_none_and_the_run_goes_on() -> None:
    stub = LlmStub(ids=True)
    reply = (
        b'{"choices": [{"message": {"content": "a"}, "token_ids": [7], "logprobs": {"content": [{"logprob": NaN}]}}],'
        b' "prompt_token_ids": [1], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}'
    )
    for word in (b"NaN", b"Infinity", b"-Infinity"):
        stub.fault = lambda number, word=word: reply.replace(b"NaN", word)  # type: ignore[misc]
        found = checked(Setting(stub=stub))
        assert found.notes == {"log-probabilities": "no log-probabilities for the sampled tokens: this run cannot be trained on"}


@pytest.mark.parametrize("reply", [b'{"choices": [NaN', b'{"a": NaN, "b": "\\ud800"}', b"[" * 100_000 + b"NaN"], ids=["cut", "lone", "deep"])
def test_what_is_no_json_in_spite_of_leniency_is_named(reply: bytes) -> None:
    assert "expected JSON, got" in refusal(Setting(stub=LlmStub(fault=lambda number: reply))).message


def test_a_server_that_hangs_is_given_up_after_a_minute() -> None:
    async def waited() -> float:
        stub = LlmStub(fault=lambda number: "hang")
        setting = Setting(stub=stub, budgets=replace(BUDGETS, policy_call_seconds=600.0))
        began = asyncio.get_running_loop().time()
        with pytest.raises(PolicyError, match="within 60 s"):
            await setting.qualified(setting.server())
        return asyncio.get_running_loop().time() - began

    assert run_virtual(waited()) == 60.0


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_list_of_models_that_is_not_there_yet_is_waited_for(status: int) -> None:
    stub = LlmStub(listing=lambda number: status if number < 4 else None)
    assert checked(Setting(stub=stub)).word.startswith("stub")


def test_a_list_of_models_that_never_comes_is_given_up_after_half_a_minute() -> None:
    async def waited() -> float:
        setting = Setting(stub=LlmStub(listing=lambda number: 503))
        began = asyncio.get_running_loop().time()
        with pytest.raises(PolicyError, match="GET http://llm/v1/models: expected a completion, got HTTP 503"):
            await setting.qualified(setting.server())
        return asyncio.get_running_loop().time() - began

    assert 20.0 < run_virtual(waited()) <= 30.0


def test_a_real_server_lists_its_models() -> None:
    with served(LlmStub(models=[QWEN])) as url:
        assert models_at(url) == {"qwen": QWEN}
        # An address without /v1 has no list, which is no reason to refuse it: the request for a token tells.
        assert models_at(url.removesuffix("/v1")) is None
