"""Servers are asked who they are; whatever they answer, or do not, is a short line and never an error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import orjson
import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.identity import greetings
from agentgym_cli.env.wire import build_http
from tests.env.toy_world import URL, ToyWorld

TEXTCRAFT = load_dialect("textcraft")
Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]


async def asked(answer: Answer, *urls: str, seconds: float = 2.0, token: str | None = None) -> dict[str, str]:
    async with build_http(transport=httpx.MockTransport(answer)) as http:
        return await greetings(urls or (URL,), TEXTCRAFT, token=token, seconds=seconds, http=http)


def answering(status: int, body: bytes) -> Answer:
    async def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, content=body)

    return answer


async def test_a_server_is_known_by_its_greeting():
    async with ToyWorld().http() as http:
        assert await greetings([URL], TEXTCRAFT, http=http) == {URL: "HTTP 200: This is environment TextCraft."}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, b'"busy"', "HTTP 503: busy"),
        (200, b'{"name": "TextCraft", "version": "1.2"}', "HTTP 200: {'name': 'TextCraft', 'version': '1.2'}"),
        (200, b"<h1>Welcome</h1>", "HTTP 200: <h1>Welcome</h1>"),
        (200, b"", "HTTP 200: "),
        (200, b"a\x1b[2J\nb\xff", "HTTP 200: a [2J b\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_whatever_a_server_answers_is_kept_as_one_line(status, body, said):
    assert await asked(answering(status, body)) == {URL: said}


@pytest.mark.parametrize("body", [orjson.dumps("x" * 100_000), b"[" * 500 + b"]" * 500, orjson.dumps({str(n): "y" * 50 for n in range(100)})])
async def test_promise_11_a_long_or_deep_greeting_is_bounded_to_200_characters(body):
    (said,) = (await asked(answering(200, body))).values()
    assert len(said.removeprefix("HTTP 200: ")) <= 200


async def test_servers_that_cannot_be_reached_are_said_to_be_and_why():
    async def refuse(request: httpx.Request) -> httpx.Response:
        if request.url.host == "slow":
            await asyncio.Event().wait()
        raise httpx.ConnectError("refused")

    said = await asked(refuse, URL, "http://slow", "ftp://wrong", seconds=0.05)
    assert list(said) == [URL, "http://slow", "ftp://wrong"]
    assert said[URL].startswith("not reached: GET http://toy/: expected a server, got ConnectError")
    assert said["http://slow"] == "not reached: GET http://slow/: expected a reply within 0.05 s, got none"
    assert said["ftp://wrong"].startswith("not reached: environment URL: expected http://HOST:PORT")


async def test_the_token_goes_with_the_question_and_is_not_kept():
    async def told(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200 if request.headers.get("authorization") == "Bearer secret" else 401, content=b'"hello"')

    assert await asked(told, token="secret") == {URL: "HTTP 200: hello"}


async def test_a_client_of_its_own_is_made_where_none_is_given():
    said = await greetings(["http://127.0.0.1:9"], TEXTCRAFT, seconds=1.0)
    assert said["http://127.0.0.1:9"].startswith("not reached: ")
    assert await greetings([], TEXTCRAFT) == {}
