"""AgentGym's BabyAI and ScienceWorld servers, as they were recorded: the shipped dialects read every reply as what it is."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.endpoint import Endpoint
from tests.env.replay import parsed, said

RECORDS = {name: json.loads((Path(__file__).parent / "data" / f"{name}_upstream.json").read_text()) for name in ("babyai", "sciworld")}
CALLS = {"/create": ("create",), "/reset": ("reset", 0, 0), "/step": ("step", 0, "x"), "/observation": ("observe", 0), "/close": ("close", 0)}
CASES = [(name, exchange) for name, record in RECORDS.items() for exchange in record if exchange["path"].partition("?")[0] in CALLS]
REWARD = {"babyai": "reward", "sciworld": "score"}


def meaning(name: str, call: str, exchange: dict[str, object]) -> object:
    """What a recorded exchange is, said without the dialect."""
    reply = parsed(exchange["reply"])
    if exchange["status"] != 200:
        return {4: InfraCause.SERVER_4XX, 5: InfraCause.SERVER_5XX}[exchange["status"] // 100]
    if reply is False or (isinstance(reply, dict) and "error" in reply):
        return InfraCause.REPORTED_ERROR
    if call == "step":
        return StepReply(observation=reply["observation"], reward=float(reply[REWARD[name]]), done=reply["done"])
    if call == "reset" and name == "sciworld":
        return f"{reply['task_description']}\n{reply['observation']}"
    return {"create": lambda: reply["id"], "reset": lambda: reply["observation"], "close": lambda: None}.get(
        call, lambda: reply["observation"] if name == "babyai" else reply
    )()


@pytest.mark.parametrize(("name", "exchange"), CASES, ids=lambda part: part if isinstance(part, str) else f"{part['path']} {part['body']}")
async def test_promise_02_every_recorded_reply_is_read_as_what_it_is(name, exchange):
    call, *arguments = CALLS[exchange["path"].partition("?")[0]]
    endpoint = Endpoint(
        build_http(transport=httpx.MockTransport(lambda request: said(exchange))), load_dialect(name), "http://recorded", call_seconds=1
    )
    try:
        got = await getattr(endpoint, call)(*arguments)
    except EnvFailure as failure:
        got = failure.cause
    assert got == meaning(name, call, exchange)


@pytest.mark.parametrize("name", RECORDS)
def test_the_records_hold_replies_errors_and_refusals(name):
    causes = {meaning(case, CALLS[exchange["path"].partition("?")[0]][0], exchange) for case, exchange in CASES if case == name}
    assert {InfraCause.REPORTED_ERROR, InfraCause.SERVER_4XX} <= causes
    assert (InfraCause.SERVER_5XX in causes) is (name == "sciworld")


@pytest.mark.parametrize("name", RECORDS)
async def test_a_recorded_server_is_told_by_its_greeting(name):
    (greeting,) = [exchange for exchange in RECORDS[name] if exchange["path"] == "/"]
    for dialect, held in ((name, True), ("textcraft", False)):
        http = build_http(transport=httpx.MockTransport(lambda request: said(greeting)))
        endpoint = Endpoint(http, load_dialect(dialect), "http://recorded", call_seconds=1)
        assert load_dialect(dialect).spec.routes.health.greeting.holds(*await endpoint.greeting()) is held


@pytest.mark.parametrize(("name", "refused"), [("babyai", {"fly", ""}), ("sciworld", {"fly to moon", "", "teleport to kitchen", "go to hallway"})])
def test_the_recorded_refusals_are_called_invalid(name, refused):
    spec = load_dialect(name).spec
    steps = [(json.loads(exchange["body"])["action"], parsed(exchange["reply"])) for exchange in RECORDS[name] if exchange["path"] == "/step"]
    played = [(action, reply["observation"]) for action, reply in steps if "observation" in reply]
    assert {action for action, observation in played if spec.says_invalid(observation)} == refused
    assert len(played) > len(refused)


async def test_the_client_plays_the_recorded_start_of_a_task_in_the_recorded_words():
    record = RECORDS["babyai"]
    start = next(number for number, exchange in enumerate(record) if exchange["body"] == '{"id":0,"data_idx":0}')
    script = iter([record[1], *record[start : start + 6]])
    sent: list[tuple[str, object, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        exchange = next(script)
        sent.append((request.url.path, json.loads(request.content), parsed(exchange["body"] or "{}")))
        return said(exchange)

    session = await HttpEnvClient(build_http(transport=httpx.MockTransport(answer)), load_dialect("babyai"), ["http://recorded"]).open()
    assert (await session.reset(0)).startswith("Your goal: go to the red ball\n")
    replies = [await session.step(action) for action in ("turn left", "move forward", "fly", "", "check available actions")]
    assert [path for path, _, _ in sent] == ["/create", "/reset", *["/step"] * 5]
    assert [ours == theirs for _, ours, theirs in sent] == [True] * 7
    assert [(reply.reward, reply.done) for reply in replies] == [(0.0, False)] * 5
