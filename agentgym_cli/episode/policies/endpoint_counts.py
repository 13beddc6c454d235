"""How many tokens a request can have taken, by its length: what a server's own count is held against, and what stands where it gives none."""

from __future__ import annotations

from dataclasses import replace

from agentgym_cli.env.pointer import Json
from agentgym_cli.episode.policies.endpoint_reply import Said
from agentgym_cli.episode.policies.endpoint_transcript import Wanted

PER_MESSAGE = 16
"""Most tokens that a template puts around one message."""
OF_A_TEMPLATE = 4096
"""Most tokens that a template adds by itself, such as instructions of its own."""


def most_read(wanted: Wanted) -> int:
    """Tokens of a request's prompt at most: its ids, or a token for every byte of its messages."""
    messages = wanted.fields.get("messages")
    if not isinstance(messages, list):
        return wanted.tokens
    return sum(_bytes(message) + PER_MESSAGE for message in messages)


def believed(said: Said, wanted: Wanted, *, model_context: int | None, budget: int) -> Said:
    """The response, without a count of its prompt that is beyond the model's context, or beyond ``budget`` and what can be in the request."""
    count = said.prompt_tokens
    if count is None or (count <= budget and (model_context is None or count <= model_context)):
        return said
    if (model_context is not None and count > model_context) or count > most_read(wanted) + OF_A_TEMPLATE:
        return replace(said, prompt_tokens=None)
    return said


def _bytes(message: Json) -> int:
    content = message.get("content") if isinstance(message, dict) else None
    return len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0
