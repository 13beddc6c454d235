"""Reading replies of OpenAI's protocol: whatever a server sends is a response or a named fault, nothing else."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.episode.policies.endpoint_reply import Api, Said, error_of, is_context_full, read_said
from agentgym_cli.episode.policies.failures import PolicyProtocol

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
ANY = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8)
KEYS = {
    "content",
    "tool_calls",
    "function_call",
    "function",
    "name",
    "arguments",
    "text",
    "refusal",
    "logprobs",
    "token_ids",
    "logprob",
    "token_logprobs",
}
NEAR = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(KEYS)), inner, max_size=4), max_leaves=12
)
"""Values with the keys of a reply in unlikely places."""
CHOICES = st.fixed_dictionaries(
    {}, optional={"message": NEAR, "text": NEAR, "token_ids": NEAR, "logprobs": NEAR, "finish_reason": NEAR, "index": NEAR}
)
BODIES = ANY | st.fixed_dictionaries(
    {"choices": st.lists(CHOICES | ANY, max_size=2)}, optional={"usage": NEAR, "prompt_token_ids": NEAR, "error": NEAR}
)


@pytest.mark.slow
@settings(deadline=None)
@given(BODIES, st.sampled_from(["chat", "completions"]), st.booleans())
def test_promise_11_any_document_is_a_response_or_a_protocol_error(body: Any, api: Api, calls: bool) -> None:
    is_context_full(error_of(body))
    try:
        said = read_said(body, api=api, calls=calls, where="POST /x")
    except PolicyProtocol as err:
        assert len(err.message) < 500
        return
    assert isinstance(said, Said)
    assert said.text.encode("utf-8").decode("utf-8") == said.text
    assert said.logprobs is None or said.token_ids is None or len(said.logprobs) == len(said.token_ids)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"error": {"message": "slow down", "code": "rate_limit"}}, ("slow down", "rate_limit")),
        ({"error": {"message": "no", "type": "bad", "code": None}}, ("no", "bad")),
        ({"error": "out of memory"}, ("out of memory", "")),
        ({"object": "error", "message": "too long", "code": 400}, ("too long", "400")),
        ({"detail": "Not Found"}, ("Not Found", "")),
        ({"choices": [], "message": "hello"}, None),
        ({"error": None, "choices": []}, None),
        (["error"], None),
    ],
)
def test_errors_are_read_as_servers_write_them(body: Any, said: tuple[str, str] | None) -> None:
    assert error_of(body) == said


@pytest.mark.parametrize("ids", [[1, True], [1, -1], [1.0], ["1"], [2**31], {"0": 1}, None])
def test_ids_that_are_none_are_not_taken(ids: Any) -> None:
    body: Any = {"choices": [{"message": {"content": "go"}, "token_ids": ids}], "prompt_token_ids": ids}
    said = read_said(body, api="chat", calls=False, where="x")
    assert (said.token_ids, said.prompt_ids) == (None, None)


@pytest.mark.parametrize(("value", "read"), [(0.0, 0.0), (9e-5, 0.0), (-1e-9, -1e-9), (2e-4, None), (7.5, None), (None, None), (True, None)])
def test_a_log_probability_above_zero_is_none(value: Any, read: float | None) -> None:
    body: Any = {"choices": [{"message": {"content": "go"}, "token_ids": [1], "logprobs": {"content": [{"logprob": value}]}}]}
    said = read_said(body, api="chat", calls=False, where="x")
    assert said.logprobs == (None if read is None else (read,))


def test_a_call_as_the_protocol_had_it_first_is_a_call_of_a_tool() -> None:
    body: Any = {"choices": [{"message": {"content": None, "function_call": {"name": "craft", "arguments": "{}"}}}]}
    assert read_said(body, api="chat", calls=True, where="x").text == '{"function_name": "craft", "arguments": {}}'
    with pytest.raises(PolicyProtocol, match="expected text, got a call of the tool 'craft'"):
        read_said(body, api="chat", calls=False, where="x")


def test_content_in_parts_is_put_together() -> None:
    body: Any = {"choices": [{"message": {"content": [{"type": "text", "text": "go "}, {"type": "text", "text": "north"}, {"type": "image"}]}}]}
    assert read_said(body, api="chat", calls=False, where="x").text == "go north"


def test_a_refusal_is_what_the_model_said() -> None:
    body: Any = {"choices": [{"message": {"content": None, "refusal": "I cannot."}}]}
    assert read_said(body, api="chat", calls=False, where="x").text == "I cannot."


def test_a_reply_as_vllm_gives_it_is_read_whole() -> None:
    chat = orjson.loads(
        b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi", "tool_calls": []}, "finish_reason": "length",'
        b' "logprobs": {"content": [{"token": "hi", "logprob": -0.5}, {"token": "!", "logprob": -1}]}, "token_ids": [6023, 0]}],'
        b' "prompt_token_ids": [1, 2, 3], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}'
    )
    expected = Said(text="hi", cut=True, prompt_tokens=3, response_tokens=2, prompt_ids=(1, 2, 3), token_ids=(6023, 0), logprobs=(-0.5, -1.0))
    assert read_said(chat, api="chat", calls=False, where="x") == expected
    plain = orjson.loads(
        b'{"choices": [{"index": 0, "text": "hi", "finish_reason": "stop", "logprobs": {"token_logprobs": [-0.5, -1]},'
        b' "token_ids": [6023, 0], "prompt_token_ids": [1, 2, 3]}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}'
    )
    told = read_said(plain, api="completions", calls=False, where="x")
    assert (told.text, told.cut, told.prompt_ids, told.token_ids, told.logprobs) == ("hi", False, (1, 2, 3), (6023, 0), (-0.5, -1.0))
