"""Which servers are there at all: one call of the health route each. What answers is the probe's to judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx

from agentgym_cli.env.breaker import COUNTED
from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.env.endpoint import Endpoint, refuse_twice
from agentgym_cli.env.wire import build_http

_FAILING = 500
"""From this HTTP status on a server says of itself that it is not well."""


async def absent(
    urls: Sequence[str], dialect: Dialect, *, seconds: float, token: str | None = None, http: httpx.AsyncClient | None = None
) -> dict[str, EnvFailure]:
    """By URL, why a server is not there: it cannot be reached, or its health route answers HTTP 5xx. All are asked at once.

    Args:
        seconds: deadline of each answer.
        http: used and left open; None makes one for the time of asking.

    Raises:
        RecipeError: a URL is none, or there twice.
    """
    refuse_twice(urls)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(build_http()) if http is None else http
        found = await asyncio.gather(*(_absence(Endpoint(client, dialect, url, call_seconds=seconds, token=token)) for url in urls))
    return {url: failure for url, failure in zip(urls, found, strict=True) if failure is not None}


async def _absence(endpoint: Endpoint) -> EnvFailure | None:
    try:
        status, _ = await endpoint.greeting()
    except EnvFailure as failure:
        return failure if failure.cause in COUNTED else None
    if status < _FAILING:
        return None
    return EnvFailure(InfraCause.SERVER_5XX, f"health route of {endpoint.url}: expected HTTP 2xx, got {status}")
