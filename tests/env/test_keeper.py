"""Servers of our own that are killed in the middle are started again, and a run ends at once when that does not help."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import EnvFailure, ServersLost
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.keeper import RESTARTS, kept
from agentgym_cli.env.launch import Fleet, fleet
from agentgym_cli.env.replicas import ServerChange
from agentgym_cli.errors import StoreError

pytestmark = pytest.mark.e2e


class Heard:
    """Changes of servers, and one to wait for."""

    def __init__(self) -> None:
        self.changes: list[ServerChange] = []
        self._news = asyncio.Event()

    def __call__(self, change: ServerChange) -> None:
        self.changes.append(change)
        self._news.set()

    async def next(self) -> ServerChange:
        await asyncio.wait_for(self._news.wait(), 20)
        self._news.clear()
        return self.changes[-1]


@asynccontextmanager
async def playing(heard: Heard) -> AsyncIterator[tuple[Fleet, HttpEnvClient]]:
    async with fleet("textcraft", ["--book", "laptop"]) as servers:
        client = HttpEnvClient(build_http(), load_dialect("textcraft"), servers.urls, on_change=heard, recovery_seconds=30.0)
        async with kept(servers, client, look_seconds=0.01):
            yield servers, client
        await client.aclose()


async def one_session(client: HttpEnvClient) -> None:
    await asyncio.wait_for(client.ready(), 30)
    session = await client.open()
    await session.reset(0)
    await session.step("inventory")
    await session.close()


async def test_a_server_that_is_killed_is_started_again_and_its_sessions_fail() -> None:
    heard = Heard()
    async with playing(heard) as (servers, client):
        old = await client.open()
        await old.reset(0)
        os.kill(servers.pid(0), signal.SIGKILL)
        change = await heard.next()
        assert (change.event, change.detail) == ("opened", "the server that this program serves there ended by signal 9 (SIGKILL); restart 1 of 3")
        await one_session(client)
        with pytest.raises(EnvFailure, match="expected the server that made it, which has ended"):
            await old.step("inventory")
        await old.close()
    assert [change.event for change in heard.changes] == ["opened", "closed"]


async def test_a_server_that_is_killed_again_and_again_ends_the_run_which_says_how_it_ended() -> None:
    heard = Heard()
    async with playing(heard) as (servers, client):
        for _ in range(RESTARTS):
            os.kill(servers.pid(0), signal.SIGKILL)
            await heard.next()
            await one_session(client)
            await heard.next()
        os.kill(servers.pid(0), signal.SIGSEGV)
        await heard.next()
        with pytest.raises(ServersLost) as caught:
            await asyncio.wait_for(client.ready(), 1)
        assert caught.value.message == (
            f"servers of the environment: expected one that runs, got none: {servers.urls[0]} "
            "(the server that this program serves there ended by signal 11 (SIGSEGV), after 3 restarts)"
        )
    assert [change.event for change in heard.changes] == ["opened", "closed"] * RESTARTS + ["opened"]


async def test_an_end_that_cannot_be_written_down_is_raised_at_the_end() -> None:
    heard = Heard()

    def full(change: ServerChange) -> None:
        heard(change)
        raise StoreError("disk full")

    async with fleet("textcraft", ["--book", "laptop"]) as servers:
        client = HttpEnvClient(build_http(), load_dialect("textcraft"), servers.urls, on_change=full)
        with pytest.raises(StoreError, match="disk full"):
            async with kept(servers, client, look_seconds=0.01):
                os.kill(servers.pid(0), signal.SIGKILL)
                await heard.next()
        await client.aclose()
