"""AgentGym's own TextCraft server, as it was recorded: the client reads every reply, and the probe finds what is known of it."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx
import pytest

from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.probe import probe
from tests.env.replay import RECORD, Replay, parsed, said

TEXTCRAFT = load_dialect("textcraft")
UPSTREAM = replace(TEXTCRAFT, spec=replace(TEXTCRAFT.spec, probe_actions=("get 1 blue orchid", "get 1 unobtainium")))
URL = "http://recorded"
INVENTORY = '{"id":1,"action":"inventory"}'


def on(path: str) -> list[dict[str, object]]:
    return [exchange for exchange in RECORD if exchange["path"].partition("?")[0] == path and exchange["path"] != "/"]


def cause_in(exchange: dict[str, object]) -> InfraCause | None:
    """What a recorded reply means, said without the dialect."""
    by_status = {200: None, 404: InfraCause.SERVER_4XX, 405: InfraCause.SERVER_4XX, 422: InfraCause.SERVER_4XX, 500: InfraCause.SERVER_5XX}
    reply = parsed(exchange["reply"])
    reported = reply is False or (isinstance(reply, dict) and "error" in reply)
    return InfraCause.REPORTED_ERROR if reported else by_status[exchange["status"]]


async def outcome(call) -> object:
    try:
        return await call
    except EnvFailure as failure:
        return failure.cause


CALLS = {"/create": ("create",), "/reset": ("reset", 1, 0), "/step": ("step", 1, "inventory"), "/observation": ("observe", 1), "/close": ("close", 1)}


@pytest.mark.parametrize(
    "exchange", [exchange for path in CALLS for exchange in on(path)], ids=lambda exchange: f"{exchange['path']} {exchange['body']}"
)
async def test_promise_02_every_recorded_reply_is_read_as_what_it_is(exchange):
    name, *arguments = CALLS[exchange["path"].partition("?")[0]]
    endpoint = Endpoint(build_http(transport=httpx.MockTransport(lambda request: said(exchange))), TEXTCRAFT, URL, call_seconds=1)
    got = await outcome(getattr(endpoint, name)(*arguments))
    cause, reply = cause_in(exchange), parsed(exchange["reply"])
    if cause is not None:
        assert got is cause
    elif name == "step":
        assert got == StepReply(observation=reply["observation"], reward=float(reply["reward"]), done=reply["done"])
    else:
        assert got == {"create": lambda: reply["id"], "reset": lambda: reply["observation"], "observe": lambda: reply, "close": lambda: None}[name]()


def test_the_record_holds_every_kind_of_reply():
    assert {cause_in(exchange) for path in CALLS for exchange in on(path)} == {None, InfraCause.REPORTED_ERROR, InfraCause.SERVER_4XX}


async def test_the_client_plays_the_recorded_episode_up_to_done_in_the_recorded_words():
    start = next(number for number, exchange in enumerate(RECORD) if exchange["path"] == "/reset" and RECORD[number + 1]["body"] == INVENTORY)
    played = [exchange for exchange in RECORD[start:] if exchange["path"] in ("/reset", "/step")]
    last = next(number for number, exchange in enumerate(played) if '"done":true' in exchange["reply"])
    script = iter([RECORD[1], *played[: last + 1]])
    sent: list[object] = []

    def answer(request: httpx.Request) -> httpx.Response:
        exchange = next(script)
        assert request.url.path == exchange["path"]
        sent.append((json.loads(request.content), json.loads(exchange["body"])))
        return said(exchange)

    session = await HttpEnvClient(build_http(transport=httpx.MockTransport(answer)), TEXTCRAFT, [URL]).open()
    assert (await session.reset(0)).endswith("Goal: craft light blue dye.")
    replies = [await session.step(json.loads(exchange["body"])["action"]) for exchange in played[1 : last + 1]]
    assert [ours == theirs for ours, theirs in sent] == [True] * len(sent)
    assert len(replies) == 16
    assert [reply.done for reply in replies] == [False] * 15 + [True]
    assert replies[-1] == StepReply(observation="Crafted 1 minecraft:light_blue_dye", reward=1.0, done=True)
    with pytest.raises(AssertionError):
        await session.step("inventory")


@pytest.mark.slow
async def test_promise_09_the_probe_is_content_with_the_recorded_server():
    replay = Replay()
    async with replay.http() as http:
        report = await probe([URL], UPSTREAM, tasks=[(0, ""), (2, ""), (100000, ""), (-1, "")], http=http)
    results = {check.name: (check.result, check.detail) for check in report.servers[0].checks}
    not_applicable = {name for name, (result, _) in results.items() if result == "n/a"}
    assert not_applicable == {"oracle", "done_latching", "content", "task_range", "replicas"}
    assert {result for name, (result, _) in results.items() if name not in not_applicable} == {"pass"}
    assert results["unknown_session"][1] == "refused: reported_error"
    assert results["double_close"][1] == "refused: reported_error"
    assert report.ok
    assert replay.live == {}
