"""Single checks against servers that have what they look for: on a workbench, without a whole probe around them."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import replace

import orjson
import pytest
from starlette.responses import Response

from agentgym_cli.env.checks import CHECKS
from agentgym_cli.env.contract import EnvFailure
from agentgym_cli.env.dialect import Dialect, load_dialect
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet
from agentgym_cli.env.launch import serving
from agentgym_cli.env.probe import EFFORT
from agentgym_cli.env.wire import build_http
from tests.env.toy_world import URL, Played, ToyWorld, reply
from tests.episode.virtual_time import run_virtual

SHIPPED = load_dialect("textcraft")
TEXTCRAFT = replace(SHIPPED, spec=replace(SHIPPED.spec, probe_sessions=4))
EFFORTS = replace(EFFORT["full"], creates=12, cycles=200, resets=4, seconds=5.0)


def bench(world: ToyWorld, *, dialect: Dialect = TEXTCRAFT, twin: ToyWorld | None = None, **options) -> Bench:
    """A workbench with a toy world; ``twin`` is what answers over other connections."""
    second = None if twin is None else Endpoint(twin.http(), dialect, URL, call_seconds=5)
    effort = options.pop("effort", EFFORTS)
    return Bench(endpoint=Endpoint(world.http(), dialect, URL, call_seconds=5), twin=second, tasks=((0, ""), (1, "")), effort=effort, **options)


async def outcome(name: str, at: Bench) -> str:
    """What a check says, with the way it ended before it."""
    try:
        found = await CHECKS[name].check(at)
    except (NotMet, NotApplicable) as said:
        return f"{type(said).__name__}: {said}"
    except EnvFailure as failure:
        return f"EnvFailure: {failure.cause.value}"
    return f"pass: {found}"


class Deaf(ToyWorld):
    """Never says what was said to it."""

    def execute(self, session: Played, action: str) -> tuple[str, bool]:
        return "Could not execute that", False


class Unquoted(ToyWorld):
    """Puts an action between quotes by hand, so that some of them break the document."""

    async def step(self, session: Played, body: dict[str, str]) -> Response:
        text = f'{{"observation": "Could not execute {body["action"]}", "reward": 0, "done": false}}'
        return Response(text.encode(), media_type="application/json")


class Choking(ToyWorld):
    """Crashes on characters that cannot be printed."""

    async def step(self, session: Played, body: dict[str, str]) -> Response:
        if not body["action"].isprintable():
            return Response("Internal Server Error", status_code=500)
        return await super().step(session, body)


class Stripping(ToyWorld):
    """Leaves out of a reply what cannot be printed."""

    def execute(self, session: Played, action: str) -> tuple[str, bool]:
        return super().execute(session, "".join(character for character in action if character.isprintable()))


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (ToyWorld(), "pass: 5 of 5 texts come back, 5 of them to the letter"),
        (Stripping(), "pass: 5 of 5 texts come back, 3 of them to the letter"),
        (Deaf(), "NotApplicable: no action comes back in an observation"),
        (Unquoted(), "NotMet: expected '\\x1b[31m\\x07agentgym\\x1b[0m' to be answered or refused, got protocol: POST /step at http://toy"),
        (Choking(), "NotMet: expected '\\x1b[31m\\x07agentgym\\x1b[0m' to be answered or refused, got server_5xx: POST /step at http://toy"),
    ],
    ids=lambda part: type(part).__name__,
)
async def test_promise_11_text_that_means_something_elsewhere_comes_back_as_text_or_is_named(world, said):
    assert (await outcome("hostile_text", bench(world)))[: len(said)] == said


class Recycling(ToyWorld):
    """Knows so many ids, and gives the oldest again."""

    ids = 6

    def create(self) -> Response:
        number = self.opened % self.ids
        self.opened += 1
        self.sessions[number] = Played()
        return reply({"id": number})


async def test_an_id_that_comes_again_is_named_with_whose_it_was():
    # 0 tells what a script is like alone, 1 is held, 2 tells what its task is like alone; 3, 4 and 5 are made and closed, and then come 0 and 1.
    assert await outcome("id_recycling", bench(Recycling())) == (
        "NotMet: expected ids that are never given twice, got 1, that of the session that is held, after 3 sessions"
    )


async def test_ids_that_stay_their_own_are_counted():
    assert await outcome("id_recycling", bench(ToyWorld())) == "pass: 12 sessions made beside one that is held"


async def test_a_session_that_lives_in_one_worker_only_is_named():
    said = await outcome("two_clients", bench(ToyWorld(), twin=ToyWorld()))
    assert said.startswith("NotMet: expected sessions made over some connections to be known over others, got reported_error: ")


async def test_two_clients_of_one_server_play_its_sessions_in_turns():
    world = ToyWorld()
    assert await outcome("two_clients", bench(world, twin=world)) == "pass: 4 sessions made by one client, played by two in turns"
    assert await outcome("two_clients", bench(world)) == "NotApplicable: there are no connections of its own for a second client"


class Generous(ToyWorld):
    """Pays for anything."""

    def execute(self, session: Played, action: str) -> tuple[str, bool]:
        return "Well done", True


async def test_a_task_that_nonsense_solves_is_named():
    assert await outcome("noop_floor", bench(ToyWorld())) == "pass: 2 tasks, none solved by 20 actions that make no sense"
    assert await outcome("noop_floor", bench(Generous())) == (
        "NotMet: expected 'agentgym probe' to solve no task, got task 0 solved after 1 times, reward 1"
    )


class Losing(ToyWorld):
    """Loses a session that nobody has used for 30 seconds; with the fault ``anew`` it makes a new one of the same id."""

    def __init__(self, fault: str = "") -> None:
        super().__init__(fault)
        self.used: dict[int, float] = {}

    async def answer(self, request):
        now = asyncio.get_running_loop().time()
        body = orjson.loads(await request.body() or b"{}")
        number = body.get("id")
        if number in self.used and now - self.used[number] > 30:
            self.sessions[number] = Played(index=self.sessions[number].index)
            if self.fault != "anew":
                del self.sessions[number]
        self.used[number] = now
        return await super().answer(request)


@pytest.mark.parametrize(
    ("fault", "seconds", "said"),
    [
        ("", 20.0, "pass: alive after 20 s without a call"),
        ("", 60.0, "NotMet: expected a session to live through 60 s without a call, got reported_error: POST /step"),
        ("anew", 60.0, "NotMet: 'inventory' is answered otherwise after 60 s without a call: expected StepReply(observation=\"Inventory: ['stone']"),
    ],
)
def test_a_session_that_is_lost_or_silently_made_anew_while_a_policy_thinks_is_named(fault, seconds, said):
    assert run_virtual(outcome("idle_expiry", bench(Losing(fault), idle_seconds=seconds)))[: len(said)] == said


class Full(ToyWorld):
    """Never frees the place of a closed session: after fifty there is none left."""

    def create(self) -> Response:
        return reply({"error": "full"}) if self.opened >= 50 else super().create()


@pytest.mark.slow
async def test_places_that_are_never_freed_are_named():
    assert (await outcome("leak", bench(Full()))).startswith(
        "NotMet: expected a session like every one before, got reported_error after 50 were made and closed: POST /create at http://toy: "
    )
    said = await outcome("leak", bench(ToyWorld()))
    assert said == "pass: 200 sessions made and closed; memory not seen: the server is not a process of this user on this machine"


GROWING = """
import json, os, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
keep, kept = int(sys.argv[1]), []
class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words): pass
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/create":
            kept.append(os.urandom(keep))
        said = {"/create": {"id": len(kept)}, "/reset": {"observation": "text"}, "/close": True}[self.path]
        body = json.dumps(said).encode()
        self.wfile.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
server = HTTPServer(("127.0.0.1", 0), Answer)
print(json.dumps({"url": "http://127.0.0.1:%d" % server.server_port}), flush=True)
server.serve_forever()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (
            256 * 1024,
            r"NotMet: expected closed sessions to leave less than 32 KiB each behind, got this: memory of process \d+ \(.+\) grew by 2\d\.\d MiB",
        ),
        (16, r"pass: 200 sessions made and closed; memory of process \d+ \(.+\) grew by -?[0-4]\.\d MiB over the last 100"),
    ],
)
async def test_memory_that_closed_sessions_keep_is_seen_where_the_server_is_a_process_of_this_machine(kept, said):
    async with serving([[sys.executable, "-c", GROWING, str(kept)]], name="server") as (url,), build_http() as http:
        at = Bench(endpoint=Endpoint(http, TEXTCRAFT, url, call_seconds=10), tasks=((0, ""),), effort=replace(EFFORTS, seconds=60.0))
        assert re.match(said, await outcome("leak", at))


class Wounded(ToyWorld):
    """Answers nothing any more after a body that is no JSON."""

    async def answer(self, request):
        try:
            orjson.loads(await request.body() or b"{}")
        except orjson.JSONDecodeError:
            self.fault = "wounded"
        if self.fault == "wounded":
            return Response("Service Unavailable", status_code=503)
        return await super().answer(request)


async def test_a_server_that_does_not_get_over_a_broken_request_is_named_with_the_request():
    assert (await outcome("recovery", bench(Wounded()))).startswith(
        "NotMet: expected the next good request to be answered after a body that is no JSON, got server_5xx: POST /create at http://toy"
    )
    assert (await outcome("recovery", bench(ToyWorld()))).startswith(
        "pass: the next request is answered; the broken ones: HTTP 500, HTTP 500, HTTP 200, "
    )


class Forgetful(ToyWorld):
    """Takes an id that is no number for that of the first session."""

    async def answer(self, request):
        body = orjson.loads(await request.body() or b"{}") if request.method == "POST" else {}
        if body and not isinstance(body.get("id", 0), int):
            return await self.step(self.sessions[min(self.sessions)], {"action": "inventory"})
        return await super().answer(request)


async def test_an_answer_to_an_id_that_is_none_is_named():
    assert (await outcome("wrong_types", bench(Forgetful()))).startswith(
        "NotMet: expected session None to be refused, got the answer of some session: "
    )


class Fragile(ToyWorld):
    """A task that is none ends every session."""

    async def reset(self, session: Played, body: dict[str, int]) -> Response:
        if not isinstance(body["data_idx"], int):
            self.sessions.clear()
        return await super().reset(session, body)


async def test_sessions_that_die_of_a_wrong_type_are_named():
    assert (await outcome("wrong_types", bench(Fragile()))).startswith("NotMet: expected sessions to live on after values of the wrong type, got ")


async def test_an_action_of_a_megabyte_may_be_refused_and_may_not_crash_the_server():
    class Refusing(ToyWorld):
        status = 413

        async def step(self, session: Played, body: dict[str, str]) -> Response:
            return Response("no", status_code=self.status) if len(body["action"]) > 5000 else await super().step(session, body)

    assert await outcome("oversized", bench(Refusing())) == "pass: refused: server_4xx"
    crashing = Refusing()
    crashing.status = 500
    assert (await outcome("oversized", bench(crashing))).startswith(
        "NotMet: expected an action of 1000000 characters to be answered or refused, got server_5xx"
    )


class Late(ToyWorld):
    """Pays NaN, or says done with a number, when a task is solved."""

    async def step(self, session: Played, body: dict[str, str]) -> Response:
        said = await super().step(session, body)
        document = orjson.loads(said.body)
        return reply({**document, "done": 1} if document["done"] else document)


async def test_a_form_that_changes_at_the_end_of_a_task_is_named():
    assert (await outcome("types", bench(Late()))).endswith("expected '/done' to be true or false, got 1")
    assert await outcome("types", bench(ToyWorld())) == "pass: 2 steps to the end of a task"
