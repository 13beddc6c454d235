"""What a reply of OpenAI's protocol says: text, token ids and log-probabilities where the server gives them. Foreign, so every type is checked."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, cast

import orjson

from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.policies.failures import PolicyProtocol
from agentgym_cli.recipe.wording import listed, shown

Api = Literal["chat", "completions"]
_LARGEST_ID = 2**31
_LARGEST_COUNT = 2**31
_ROUNDING = 1e-4
"""Nats by which a log-probability of a certain token may be above 0."""
_CONTEXT = re.compile(
    r"context[ _](length|size|window)|maximum context|max_model_len|exceed_context|prompt is too long|longer than the (model|maximum)", re.IGNORECASE
)
"""How servers say that a prompt is too long: OpenAI and vLLM ``context_length_exceeded`` and ``maximum context length``, llama.cpp
``exceed_context_size_error``, SGLang ``longer than the model's context length``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One response."""

    text: str
    cut: bool
    """True when the server ended it at its token limit."""
    prompt_tokens: int | None
    """None where the server does not count."""
    response_tokens: int | None
    prompt_ids: tuple[int, ...] | None
    """Ids of the whole prompt as the server read it; None where it does not say."""
    token_ids: tuple[int, ...] | None
    """Ids as they were sampled; None where the server does not say."""
    logprobs: tuple[float, ...] | None
    """In nats, one for each of ``token_ids``; None where there are none, or another number of them."""


def read_document(raw: bytes) -> Json:
    """A reply as JSON, null where it has NaN or an infinity, which some servers write for a log-probability. Raises ValueError for what is none."""
    try:
        return cast("Json", orjson.loads(raw))
    except orjson.JSONDecodeError:
        if not any(word in raw for word in (b"NaN", b"Infinity")):
            raise
    try:
        lenient = json.loads(raw, parse_constant=lambda name: None)
    except RecursionError as err:
        raise ValueError(str(err)) from err
    # Once more through the strict reader: it refuses lone surrogates, which are no text.
    return cast("Json", orjson.loads(json.dumps(lenient)))


def read_said(body: Json, *, api: Api, calls: bool, where: str, vocabulary: int | None = None) -> Said:
    """Read the first choice of a reply.

    Args:
        calls: take the calls of tools as text, as action format ``function_call`` reads it.
        vocabulary: ids are below it; None where no tokenizer is at hand.

    Raises:
        PolicyProtocol: not a completion, or a call of a tool where none is read.
    """
    choice = _first_choice(body, where)
    assert isinstance(body, dict)
    usage = body.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    most = vocabulary or _LARGEST_ID
    token_ids = _ids(choice.get("token_ids"), most)
    text = _message_text(choice, calls=calls, where=where) if api == "chat" else _plain_text(choice, where)
    counted = count_of(counts.get("completion_tokens"), least=1 if text else 0)
    return Said(
        text=text,
        cut=choice.get("finish_reason") == "length",
        prompt_tokens=count_of(counts.get("prompt_tokens"), least=1),
        response_tokens=len(token_ids) if token_ids is not None else counted,
        prompt_ids=_ids(body.get("prompt_token_ids"), most) or _ids(choice.get("prompt_token_ids"), most),
        token_ids=token_ids,
        logprobs=_logprobs(choice.get("logprobs"), api, len(token_ids or ())),
    )


def error_of(body: Json) -> tuple[str, str] | None:
    """Message and code of an error as servers write it; None where the body is none."""
    if not isinstance(body, dict):
        return None
    error = body.get("error", body if body.get("object") == "error" else None)
    if isinstance(error, dict):
        return str(error.get("message") or ""), str(error.get("code") or error.get("type") or "")
    if isinstance(error, str):
        return error, ""
    told = body.get("detail") or body.get("message")
    return (told if isinstance(told, str) else shown(told), "") if told and "choices" not in body else None


def is_context_full(error: tuple[str, str] | None) -> bool:
    """True where an error says that the prompt, or what was asked for behind it, is longer than the model's context."""
    return error is not None and any(_CONTEXT.search(words[:2_000]) for words in error)


def _first_choice(body: Json, where: str) -> dict[str, Json]:
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        got = body if choices is None else {"choices": choices}
        raise PolicyProtocol(f"{where}: expected a completion with choices, got {shown(got)}")
    numbered = [choice for choice in choices if isinstance(choice, dict) and choice.get("index") == 0]
    return numbered[0] if numbered else choices[0]


def _plain_text(choice: dict[str, Json], where: str) -> str:
    text = choice.get("text")
    if text is not None and not isinstance(text, str):
        raise PolicyProtocol(f"{where}: expected choices[0].text to be text, got {shown(text)}")
    if text is None and "text" not in choice:
        raise PolicyProtocol(f"{where}: expected choices[0].text, got {shown(choice)}")
    return text or ""


def _message_text(choice: dict[str, Json], *, calls: bool, where: str) -> str:
    message = choice.get("message")
    if not isinstance(message, dict):
        raise PolicyProtocol(f"{where}: expected choices[0].message, got {shown(choice)}")
    text = _content(message, where)
    called = message.get("tool_calls") or _legacy_call(message)
    if not called:
        return text
    if not isinstance(called, list) or not calls:
        raise PolicyProtocol(
            f"{where}: expected text, got a call of the tool {listed(_names(called))}",
            "prompt.action_format=function_call reads calls; or serve the model without a tool parser",
        )
    return "\n".join([*([text] if text else []), *(_call(call, where) for call in called)])


def _legacy_call(message: dict[str, Json]) -> Json:
    """The one call that the protocol had before it had several."""
    function = message.get("function_call")
    return [{"function": function}] if function else None


def _content(message: dict[str, Json], where: str) -> str:
    content = message.get("content")
    if content is None:
        refusal = message.get("refusal")
        return refusal if isinstance(refusal, str) else ""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        raise PolicyProtocol(f"{where}: expected choices[0].message.content to be text, got {shown(content)}")
    return content


def _names(called: Json) -> list[str]:
    calls = called if isinstance(called, list) else [called]
    found = [call.get("function") if isinstance(call, dict) else None for call in calls]
    return [shown(function.get("name")) if isinstance(function, dict) else "?" for function in found]


def _call(call: Json, where: str) -> str:
    """A call as one JSON object with ``function_name`` and ``arguments``."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise PolicyProtocol(f"{where}: expected a call with the name of a function, got {shown(call)}")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        # Broken arguments are the model's mistake: the turn is then one without a readable action.
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments, strict=False)
    said = json.dumps({"function_name": function["name"], "arguments": arguments}, ensure_ascii=False)
    return said.encode("utf-8", "replace").decode()


def count_of(value: Json, *, least: int) -> int | None:
    """A number of tokens as a server says it; None for what can be none."""
    return value if type(value) is int and least <= value < _LARGEST_COUNT else None


def _ids(value: Json, most: int) -> tuple[int, ...] | None:
    # Whole lists at once: a prompt has thousands of ids in every turn.
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        return None
    ids = cast("list[int]", value)
    return tuple(ids) if not ids or (min(ids) >= 0 and max(ids) < most) else None


def _logprobs(said: Json, api: Api, count: int) -> tuple[float, ...] | None:
    if not isinstance(said, dict):
        return None
    found = said.get("content") if api == "chat" else said.get("token_logprobs")
    if not isinstance(found, list) or len(found) != count:
        return None
    values = [entry.get("logprob") if isinstance(entry, dict) else None for entry in found] if api == "chat" else found
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool) and _can_be_logprob(value)]
    return tuple(min(number, 0.0) for number in numbers) if len(numbers) == count else None


def _can_be_logprob(value: float) -> bool:
    return math.isfinite(value) and value <= _ROUNDING
