"""What environment servers say they are: one greeting each, within a deadline. Judges nothing and never fails."""

from __future__ import annotations

import asyncio
import reprlib
from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx

from agentgym_cli.env.contract import EnvFailure
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.pointer import Json
from agentgym_cli.env.wire import build_http
from agentgym_cli.errors import RecipeError

ASK_SECONDS = 2.0
_SHOWN = 200
"""Most characters of a server's words that are kept."""
_BRIEF = reprlib.Repr()
"""Foreign documents can be deep and large: what is shown of them is neither."""
_BRIEF.maxstring, _BRIEF.maxdict = _SHOWN, 20


async def greetings(
    urls: Sequence[str], dialect: Dialect, *, token: str | None = None, seconds: float = ASK_SECONDS, http: httpx.AsyncClient | None = None
) -> dict[str, str]:
    """By URL, what each server answered to the dialect's health route, as one line, or ``not reached: why``; all are asked at once.

    Args:
        seconds: deadline of each answer.
        http: used and left open; None makes one for the time of asking.
    """
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(build_http()) if http is None else http
        said = await asyncio.gather(*(_greeting(client, dialect, url, token=token, seconds=seconds) for url in urls))
    return dict(zip(urls, said, strict=True))


async def _greeting(http: httpx.AsyncClient, dialect: Dialect, url: str, *, token: str | None, seconds: float) -> str:
    try:
        status, body = await Endpoint(http, dialect, url, call_seconds=seconds, token=token).greeting()
    except (EnvFailure, RecipeError) as err:
        return f"not reached: {_one_line(str(err))}"
    return f"HTTP {status}: {_one_line(body)}"


def _one_line(value: Json) -> str:
    text = value if isinstance(value, str) else _BRIEF.repr(value)
    text = "".join(character if character.isprintable() else " " for character in text[: 2 * _SHOWN])
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
