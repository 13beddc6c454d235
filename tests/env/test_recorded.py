"""AgentGym's servers as they were recorded: the shipped dialects read every reply as what it is, and the probe finds what they declare."""

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
from tests.env.recorded_worlds import FAMILIES, RECORDS, Recorded
from tests.env.replay import parsed, said

CALLS = {"/create": ("create",), "/reset": ("reset", 0, 0), "/step": ("step", 0, "x"), "/observation": ("observe", 0), "/close": ("close", 0)}
TASKS = {"babyai": (0, 4000), "sciworld": (0, 3000), "maze": (0, 1), "wordle": (0,), "sqlgym": (0, 1)}
ACTIONS = {
    "babyai": ("turn left", "move forward", "check available actions"),
    "sciworld": ("look around", "inventory"),
    "maze": ("move up", "move right"),
    "wordle": ("p a n i c\n", "s o l a r\n"),
    "sqlgym": ("select 1",),
}
NOT_RECORDED = {"done_latching", "id_recycling"}
"""Deviations that a quick probe of a few sessions without an oracle does not meet."""


def called(exchange: dict[str, object]) -> tuple[object, ...] | None:
    path = exchange["path"].partition("?")[0]
    return CALLS.get(path if path.count("/") == 1 else f"/{path.rpartition('/')[2]}")


CASES = [(name, exchange) for name, record in RECORDS.items() for exchange in record if called(exchange)]


def meaning(name: str, call: str, exchange: dict[str, object]) -> object:
    """What a recorded exchange is, said without the dialect."""
    reply = parsed(exchange["reply"])
    if call == "close" and load_dialect(name).spec.routes.close is None:
        return None
    if exchange["status"] != 200:
        return {4: InfraCause.SERVER_4XX, 5: InfraCause.SERVER_5XX}[exchange["status"] // 100]
    if reply is False or (isinstance(reply, dict) and "error" in reply):
        return InfraCause.REPORTED_ERROR
    if call == "step":
        observation, reward = {"sqlgym": "state"}.get(name, "observation"), {"sciworld": "score"}.get(name, "reward")
        return StepReply(observation=reply[observation], reward=float(reply[reward]), done=reply["done"])
    if call == "reset" and name == "sciworld":
        return f"{reply['task_description']}\n{reply['observation']}"
    if call == "reset" and name == "wordle":
        return InfraCause.PROTOCOL
    return {
        "create": lambda: reply if name == "sqlgym" else reply["id"],
        "reset": lambda: reply[0] if name == "sqlgym" else reply["observation"],
        "close": lambda: None,
    }.get(call, lambda: reply["observation"] if name == "babyai" else reply)()


@pytest.mark.parametrize(("name", "exchange"), CASES, ids=lambda part: part if isinstance(part, str) else f"{part['path']} {part['body']}")
async def test_promise_02_every_recorded_reply_is_read_as_what_it_is(name, exchange):
    call, *arguments = called(exchange)
    endpoint = Endpoint(
        build_http(transport=httpx.MockTransport(lambda request: said(exchange))), load_dialect(name), "http://recorded", call_seconds=1
    )
    try:
        got = await getattr(endpoint, call)(*arguments)
    except EnvFailure as failure:
        got = failure.cause
    assert got == meaning(name, call, exchange)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_records_hold_replies_errors_and_refusals(name):
    causes = {meaning(case, called(exchange)[0], exchange) for case, exchange in CASES if case == name}
    assert InfraCause.SERVER_4XX in causes
    assert (InfraCause.REPORTED_ERROR in causes) is (name != "sqlgym")
    assert (InfraCause.SERVER_5XX in causes) is (name in ("sciworld", "sqlgym"))


@pytest.mark.parametrize("name", FAMILIES)
async def test_a_recorded_server_is_told_by_its_greeting(name):
    (greeting,) = [exchange for exchange in RECORDS[name] if exchange["path"] == "/"]
    for dialect, held in ((name, True), ("textcraft", False)):
        http = build_http(transport=httpx.MockTransport(lambda request: said(greeting)))
        endpoint = Endpoint(http, load_dialect(dialect), "http://recorded", call_seconds=1)
        assert load_dialect(dialect).spec.routes.health.greeting.holds(*await endpoint.greeting()) is held


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("babyai", {"fly", ""}),
        ("sciworld", {"fly to moon", "", "teleport to kitchen", "go to hallway"}),
        ("wordle", {"c r a n e\n", "crane", "z z z z z\n", ""}),
        ("maze", set()),
    ],
)
def test_the_recorded_refusals_are_called_invalid(name, refused):
    spec = load_dialect(name).spec
    steps = [
        (json.loads(exchange["body"])["action"], parsed(exchange["reply"]))
        for case, exchange in CASES
        if case == name and "action" in exchange["body"]
    ]
    played = [(action, reply["observation"]) for action, reply in steps if "observation" in reply]
    assert {action for action, observation in played if spec.says_invalid(observation)} == refused
    assert len(played) > len(refused)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
async def test_promise_09_the_probe_finds_at_a_recorded_server_what_its_dialect_declares(name):
    server, dialect = Recorded(name), load_dialect(name)
    recorded = replace(dialect, spec=replace(dialect.spec, probe_actions=ACTIONS[name]))
    async with server.http() as http:
        report = await probe(["http://recorded"], recorded, tasks=[(task, "") for task in TASKS[name]], http=http)
    checks = report.servers[0].checks
    assert {check.name: check.detail for check in checks if check.result == "fail"} == {}
    assert {check.name for check in checks if check.result == "known deviation"} == set(dialect.spec.deviations) - NOT_RECORDED - {"task_range"}
    absent = set() if dialect.spec.routes.close else {"close", "double_close", "use_after_close"}
    unknown = {"oracle", "done_latching", "content", "task_range", "replicas"}
    assert {check.name for check in checks if check.result == "n/a"} == {*unknown, *absent}
    assert server.live == {} or absent


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


async def test_wordle_starts_with_the_recorded_words_and_ends_with_the_last_guess():
    session = await HttpEnvClient(Recorded("wordle").http(), load_dialect("wordle"), ["http://recorded"]).open()
    first = await session.reset(0)
    assert first.startswith("Let's start Wordle!\nAccepted words: panic, solar, shire, ")
    assert len(first.partition("Accepted words: ")[2].split(", ")) == 40
    assert await session.step("p a n i c\n") == StepReply(observation="b y b b b\n", reward=0.0, done=False)
    assert await session.step("l i g h t\n") == StepReply(observation="b b b b b\n", reward=0.0, done=True)


async def test_sqlgym_pays_for_the_right_result_and_keeps_the_expected_statement_to_itself():
    session = await HttpEnvClient(Recorded("sqlgym").http(), load_dialect("sqlgym"), ["http://recorded"]).open()
    question = await session.reset(0)
    assert question.endswith("\n\nHow many items cost more than 2?")
    reply = await session.step("select count(*) from item where price>2")
    assert reply == StepReply(observation="[(2,)]", reward=1.0, done=True)


async def test_the_recorded_sqlgym_hands_out_the_id_of_a_session_that_is_held_and_the_client_refuses_it():
    client = HttpEnvClient(Recorded("sqlgym").http(), load_dialect("sqlgym"), ["http://recorded"])
    for _ in range(8):
        await client.open()
    with pytest.raises(EnvFailure, match="expected a session of its own, got 141547, which is still in use here"):
        await client.open()


async def test_the_maze_says_in_every_reply_where_one_is():
    session = await HttpEnvClient(Recorded("maze").http(), load_dialect("maze"), ["http://recorded"]).open()
    first = await session.reset(0)
    assert load_dialect("maze").spec.goal_in(first) == "position 8, 6"
    assert (await session.step("fly")).observation == first
    assert "position 1, 2" in (await session.step("move right")).observation
