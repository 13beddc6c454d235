"""Servers that are not there are told from servers that answer, whatever they say."""

from __future__ import annotations

import httpx
import pytest

from agentgym_cli.env.contract import InfraCause
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.rollcall import absent
from agentgym_cli.env.wire import build_http
from agentgym_cli.errors import RecipeError


def said(request: httpx.Request) -> httpx.Response:
    if request.url.host == "refused":
        raise httpx.ConnectError("refused")
    if request.url.host == "reset":
        raise httpx.ReadError("lost")
    return httpx.Response(int(request.url.host.removeprefix("http")), text="hello")


async def test_only_servers_that_cannot_be_reached_or_say_that_they_are_not_well_are_absent() -> None:
    urls = [f"http://{host}" for host in ("refused", "reset", "http500", "http503", "http200", "http302", "http401", "http404")]
    async with build_http(transport=httpx.MockTransport(said)) as http:
        gone = await absent(urls, load_dialect("textcraft"), seconds=5.0, http=http)
    assert {url: failure.cause for url, failure in gone.items()} == {
        "http://refused": InfraCause.CONNECT,
        "http://reset": InfraCause.RESET,
        "http://http500": InfraCause.SERVER_5XX,
        "http://http503": InfraCause.SERVER_5XX,
    }
    assert gone["http://http503"].message == "health route of http://http503: expected HTTP 2xx, got 503"


async def test_a_server_that_is_named_twice_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(RecipeError, match="expected each server once, got 'http://a' again"):
        await absent(["http://a", "http://a/"], load_dialect("textcraft"), seconds=5.0)
