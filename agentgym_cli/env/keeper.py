"""Servers of our own that end while a run uses them are started again where they were, a few times each. Knows no world by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from agentgym_cli.env.client import HttpEnvClient
from agentgym_cli.env.launch import Fleet
from agentgym_cli.errors import EnvError

RESTARTS = 3
"""Most restarts of one server in a run; one that ends more often has a fault that restarts do not mend."""
LOOK_SECONDS = 0.25
"""Between two looks at whether a process runs."""


@asynccontextmanager
async def kept(servers: Fleet, client: HttpEnvClient, *, look_seconds: float = LOOK_SECONDS) -> AsyncIterator[None]:
    """Keep servers running for as long as the block runs, and tell the client of every end and restart.

    Raises:
        AgentgymError: the client's ``on_change`` could not write an end down.
    """
    keeping = [asyncio.ensure_future(_keep(servers, place, client, look_seconds)) for place in range(len(servers.urls))]
    try:
        yield
    finally:
        for each in keeping:
            each.cancel()
        for each in keeping:
            with suppress(asyncio.CancelledError):
                await each


async def _keep(servers: Fleet, place: int, client: HttpEnvClient, look_seconds: float) -> None:
    url = servers.urls[place]
    for number in range(1, RESTARTS + 1):
        how = await _end(servers, place, look_seconds)
        client.server_ended(url, f"the server that this program serves there ended {how}; restart {number} of {RESTARTS}", for_good=False)
        # One that does not come up has ended, and the next look says how.
        with suppress(EnvError):
            await servers.restart(place)
            client.try_again(url)
    how = await _end(servers, place, look_seconds)
    client.server_ended(url, f"the server that this program serves there ended {how}, after {RESTARTS} restarts", for_good=True)


async def _end(servers: Fleet, place: int, look_seconds: float) -> str:
    while True:
        if (how := servers.ended(place)) is not None:
            return how
        await asyncio.sleep(look_seconds)
