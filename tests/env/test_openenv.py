"""OpenEnv over WebSocket: a session is a connection, recorded answers are read as what they are, and whatever breaks is a failure with its cause."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.endpoint import Endpoint, base_url
from agentgym_cli.env.probe import probe
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.scripted import ScriptedPolicy
from agentgym_cli.episode.types import Outcome, StopReason
from agentgym_cli.errors import RecipeError
from tests.env.openenv_world import READY, RECORD, OpenEnvWorld, answer
from tests.episode.fakes import BUDGETS, make_episode

DIALECT = load_dialect("openenv")


@asynccontextmanager
async def spoken(world: OpenEnvWorld, *, seconds: float = 5.0, token: str | None = None) -> AsyncIterator[Endpoint]:
    async with world.serve() as url, build_http() as http:
        yield Endpoint(http, DIALECT, url, call_seconds=seconds, token=token)


@asynccontextmanager
async def client_of(world: OpenEnvWorld, *, seconds: float = 5.0) -> AsyncIterator[HttpEnvClient]:
    async with world.serve() as url:
        client = HttpEnvClient(build_http(), DIALECT, [url], call_seconds=seconds)
        try:
            yield client
        finally:
            await client.aclose()


async def failure_of(call) -> EnvFailure:
    with pytest.raises(EnvFailure) as caught:
        await call
    return caught.value


@pytest.mark.parametrize("exchange", RECORD["socket"][:-1], ids=lambda exchange: exchange["sent"])
def test_the_world_of_these_tests_answers_as_the_server_was_recorded(exchange):
    said, recorded = answer(exchange["sent"], steps=2), json.loads(exchange["reply"])
    assert said == recorded
    if recorded["type"] == "observation":
        assert answer(exchange["sent"].replace(": {", ":  {")) == recorded


async def test_the_client_says_the_recorded_frames_and_reads_their_answers():
    world = OpenEnvWorld()
    async with spoken(world) as endpoint:
        session = await endpoint.create()
        assert await endpoint.reset(session, 1) == READY
        assert await endpoint.step(session, "hi") == StepReply(observation="hi", reward=0.2, done=False)
        assert await endpoint.step(session, "hi2") == StepReply(observation="hi2", reward=0.30000000000000004, done=False)
        await endpoint.close(session)
        assert world.live == 0
    assert world.frames == [
        {"type": "state"},
        {"type": "reset", "data": {"seed": 1}},
        {"type": "step", "data": {"message": "hi"}},
        {"type": "step", "data": {"message": "hi2"}},
        {"type": "close"},
    ]


async def test_an_error_frame_is_a_reported_error_with_its_code_and_the_session_lives_on():
    async with spoken(OpenEnvWorld()) as endpoint:
        session = await endpoint.create()
        failure = await failure_of(endpoint.call(DIALECT.spec.routes.step, {"connection": session, "message": "x", "bogus": 1}))
        assert failure.cause is InfraCause.REPORTED_ERROR
        assert "VALIDATION_ERROR" in str(failure)
        assert await endpoint.reset(session, 0) == READY
        await endpoint.close(session)


async def test_the_code_of_an_error_is_shown_however_long_its_message_is():
    async with spoken(OpenEnvWorld(fault="fails")) as endpoint:
        session = await endpoint.create()
        failure = await failure_of(endpoint.reset(session, 0))
        await endpoint.close(session)
    assert failure.cause is InfraCause.REPORTED_ERROR
    assert "EXECUTION_ERROR" in str(failure)
    assert len(str(failure)) < 500


async def test_a_server_that_is_full_refuses_the_session_and_says_what_to_do():
    world = OpenEnvWorld(room=1)
    async with spoken(world) as endpoint:
        first = await endpoint.create()
        failure = await failure_of(endpoint.create())
        assert failure.cause is InfraCause.REPORTED_ERROR
        assert "Server at capacity: 1/1 sessions active" in str(failure)
        assert "give the server room for more sessions, name more servers in env.urls, or lower engine.slots" in str(failure)
        assert await endpoint.reset(first, 0) == READY
        await endpoint.close(first)
        await endpoint.close(await endpoint.create())
    assert world.most == 1


async def test_sessions_are_apart_and_a_closed_one_makes_room_at_once():
    world = OpenEnvWorld(room=8)
    async with spoken(world) as endpoint:
        for _ in range(3):
            sessions = await asyncio.gather(*(endpoint.create() for _ in range(8)))
            assert len(set(sessions)) == 8
            replies = await asyncio.gather(*(endpoint.step(session, f"at {session}") for session in sessions))
            assert [reply.observation for reply in replies] == [f"at {session}" for session in sessions]
            await asyncio.gather(*map(endpoint.close, sessions))
    assert world.most == 8


@pytest.mark.parametrize(
    ("fault", "cause", "words"),
    [
        ("closes", InfraCause.RESET, r"code 4001, '\x1b[31mout of memory'"),
        ("cuts", InfraCause.RESET, "expected a frame, got the end of the connection"),
        ("hangs", InfraCause.TIMEOUT, "expected a frame within 0.2 s, got none"),
        ("no JSON", InfraCause.PROTOCOL, "expected JSON, got '<h1>hello</h1>'"),
        ("NaN", InfraCause.PROTOCOL, "expected JSON"),
        ("a list", InfraCause.PROTOCOL, "expected a value at '/data/reward', got []"),
        ("binary", InfraCause.PROTOCOL, "expected a text frame, got BINARY b'{}'"),
        ("100 MB", InfraCause.PROTOCOL, "expected at most 8388608 bytes, got more"),
        ("pieces", InfraCause.PROTOCOL, "expected at most 8388608 bytes, got more"),
    ],
)
async def test_promise_02_a_broken_answer_is_a_failure_with_its_cause(fault, cause, words):
    world = OpenEnvWorld(fault=fault)
    async with spoken(world, seconds=0.2 if fault == "hangs" else 20.0) as endpoint:
        session = await endpoint.create()
        failure = await failure_of(endpoint.step(session, "hi"))
        assert failure.cause is cause
        assert words in str(failure)
        await endpoint.close(session)
        async with asyncio.timeout(5):
            await world.gone.wait()
        assert world.live == 0


@pytest.mark.parametrize("fault", ["closes", "cuts", "hangs", "binary", "100 MB"])
async def test_a_connection_that_failed_answers_no_later_call(fault):
    async with spoken(OpenEnvWorld(fault=fault), seconds=0.2 if fault == "hangs" else 20.0) as endpoint:
        session = await endpoint.create()
        await failure_of(endpoint.step(session, "hi"))
        assert (await failure_of(endpoint.step(session, "hi"))).cause is InfraCause.RESET
        await endpoint.close(session)


async def test_an_answer_too_many_is_never_taken_for_the_next_one():
    async with spoken(OpenEnvWorld(fault="answers twice")) as endpoint:
        session = await endpoint.create()
        assert (await endpoint.step(session, "first")).observation == "first"
        await asyncio.wait({endpoint._sockets._live[session]._next})
        failure = await failure_of(endpoint.step(session, "second"))
        assert failure.cause is InfraCause.PROTOCOL
        assert "expected the server to wait for a call" in str(failure)
        assert (await failure_of(endpoint.step(session, "third"))).cause is InfraCause.RESET
        await endpoint.close(session)


async def test_a_call_that_was_cancelled_leaves_no_answer_for_the_next():
    async with spoken(OpenEnvWorld(fault="hangs")) as endpoint:
        session = await endpoint.create()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await endpoint.step(session, "hi")
        assert (await failure_of(endpoint.step(session, "hi"))).cause is InfraCause.RESET
        await endpoint.close(session)


async def test_a_ping_is_answered_while_nobody_asks_anything():
    world = OpenEnvWorld(fault="pings")
    async with spoken(world) as endpoint:
        session = await endpoint.create()
        await endpoint.reset(session, 0)
        async with asyncio.timeout(5):
            await world.heard.wait()
        assert (await endpoint.step(session, "hi")).observation == "hi"
        await endpoint.close(session)


async def test_a_server_that_does_not_end_a_connection_is_told_and_left():
    world = OpenEnvWorld(fault="does not close")
    async with spoken(world, seconds=0.2) as endpoint:
        session = await endpoint.create()
        await endpoint.reset(session, 0)
        assert (await failure_of(endpoint.close(session))).cause is InfraCause.TIMEOUT
        async with asyncio.timeout(5):
            await world.gone.wait()
        await endpoint.close(session)


@pytest.mark.parametrize(
    ("fault", "cause", "words"),
    [
        ("redirect", InfraCause.PROTOCOL, "expected a WebSocket, got a redirect (302) to '/metadata'"),
        ("HTTP 200", InfraCause.PROTOCOL, "expected a WebSocket, got HTTP 200"),
        ("HTTP 404", InfraCause.SERVER_4XX, "expected a WebSocket, got HTTP 404"),
        ("HTTP 503", InfraCause.SERVER_5XX, "expected a WebSocket, got HTTP 503"),
    ],
)
async def test_a_server_that_opens_no_websocket_is_a_failure_with_its_cause(fault, cause, words):
    world = OpenEnvWorld(fault=fault)
    async with spoken(world) as endpoint:
        failure = await failure_of(endpoint.create())
    assert failure.cause is cause
    assert words in str(failure)
    assert len(world.headers) == 1


async def test_a_server_that_is_not_there_or_speaks_no_tls_is_not_reached():
    async with OpenEnvWorld().serve() as url, build_http() as http:
        plain = Endpoint(http, DIALECT, url.replace("http://", "https://"), call_seconds=5)
        assert (await failure_of(plain.create())).cause is InfraCause.CONNECT
    async with build_http() as http:
        assert (await failure_of(Endpoint(http, DIALECT, url, call_seconds=5).create())).cause is InfraCause.CONNECT


async def test_the_bearer_token_is_sent_when_a_connection_is_made():
    world = OpenEnvWorld()
    async with spoken(world, token="s3cret") as endpoint:
        await endpoint.close(await endpoint.create())
    assert world.headers[0]["authorization"] == "Bearer s3cret"


def test_a_websocket_server_is_named_by_its_http_address():
    with pytest.raises(RecipeError, match="expected http://HOST:PORT") as caught:
        base_url("ws://127.0.0.1:8000")
    assert caught.value.hint == "name a server of WebSockets by http:// or https:// too"


async def test_an_episode_is_played_by_a_scripted_policy():
    world, policy = OpenEnvWorld(), ScriptedPolicy({"fake_0": ["hi", "hi2"]}, action_format="plain")
    async with client_of(world) as client:
        rules = DIALECT.rules()
        result = await run_episode(
            make_episode(horizon=3),
            attempt=1,
            seed=0,
            policy=policy,
            env=client,
            rules=rules,
            action_rule=rules.actions["plain"],
            budgets=BUDGETS,
        )
    assert (result.stop, result.outcome, result.truncated) == (StopReason.HORIZON, Outcome.FAILURE, True)
    assert [(turn.observation, turn.action, turn.reward) for turn in result.turns] == [
        (READY, "hi", 0.2),
        ("hi", "hi2", 0.30000000000000004),
        ("hi2", "", 0.0),
    ]
    assert result.reward == pytest.approx(0.5)
    assert world.live == 0
    assert world.frames[-1] == {"type": "close"}


@pytest.mark.parametrize(
    ("fault", "cause", "stop"), [("cuts", InfraCause.RESET, StopReason.ENV_ERROR), ("hangs", InfraCause.TIMEOUT, StopReason.ENV_DEADLINE)]
)
async def test_promise_02_an_episode_whose_connection_breaks_is_an_infra_error(fault, cause, stop):
    async with client_of(OpenEnvWorld(fault=fault), seconds=0.2) as client:
        rules = DIALECT.rules()
        result = await run_episode(
            make_episode(),
            attempt=1,
            seed=0,
            policy=ScriptedPolicy({"fake_0": ["hi"]}, action_format="plain"),
            env=client,
            rules=rules,
            action_rule=rules.actions["plain"],
            budgets=BUDGETS,
        )
    assert (result.stop, result.cause, result.outcome, result.reward) == (stop, cause, Outcome.INFRA_ERROR, None)


async def test_a_session_cancelled_while_it_is_made_is_closed():
    world = OpenEnvWorld()
    async with client_of(world) as client:
        opening = asyncio.ensure_future(client.open())
        await world.met.wait()
        opening.cancel()
        await asyncio.wait({opening})
        assert opening.cancelled()
        async with asyncio.timeout(5):
            await world.gone.wait()
    assert world.live == 0


async def test_the_probe_finds_a_healthy_server_with_nothing_but_what_the_dialect_declares():
    async with OpenEnvWorld().serve() as url:
        (server,) = (await probe([url], DIALECT)).servers
    results = {check.name: check.result for check in server.checks}
    assert not server.failed
    assert {name for name, result in results.items() if result == "known deviation"} <= DIALECT.spec.deviations.keys()
    for name in ("health", "identity", "create", "reset", "step", "types", "close", "reset_determinism", "isolation"):
        assert results[name] == "pass", name
    for name in ("unknown_session", "wrong_types", "error_style", "double_close", "use_after_close", "two_clients", "observe", "oracle"):
        assert results[name] == "n/a", name


async def test_the_probe_says_that_a_server_has_room_for_one_session():
    async with OpenEnvWorld(room=1).serve() as url:
        (server,) = (await probe([url], DIALECT)).servers
    failed = {check.name: check.detail for check in server.failed}
    assert "give the server room for more sessions" in failed["create"]
    assert set(failed) == {"create"}


async def test_another_openenv_environment_is_told_by_its_name():
    spec = DIALECT.spec
    greeting = replace(spec.routes.health.greeting, matches=None, equals="OtherEnvironment")
    other = replace(DIALECT, spec=replace(spec, routes=replace(spec.routes, health=replace(spec.routes.health, greeting=greeting))))
    async with OpenEnvWorld().serve() as url:
        (server,) = (await probe([url], other)).servers
    assert [check.name for check in server.failed] == ["identity"]
    assert "EchoDemoEnvironment" in server.failed[0].detail


def changed(tmp_path, old: str, new: str):
    text = DIALECT.path.read_text()
    assert text.count(old) == 1
    (tmp_path / "openenv.txt").write_text("Talk.")
    (tmp_path / "mine.yaml").write_text(text.replace(old, new))
    return tmp_path / "mine.yaml"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("call: SEND step", "call: POST /step", "expected every call but health to be SEND TYPE, since there is a socket, got 'POST /step'"),
        (
            "socket: {path: /ws, type_field: type, data_field: data}",
            "",
            "expected every call but health to be METHOD /PATH, since there is no socket",
        ),
        ("call: GET /metadata", "call: SEND metadata", "expected text that matches"),
        ("session: null", 'session: ""', "expected routes.create.session and routes.close.closed to be null beside a socket"),
        ("closed: null", "closed: {pointer: /type}", "expected routes.create.session and routes.close.closed to be null beside a socket"),
        ("path: /ws", "path: ws", "expected text that matches"),
        ("type_field: type", "type_fields: type", "did you mean type_field"),
    ],
)
def test_promise_08_a_dialect_whose_calls_do_not_fit_its_transport_is_refused(tmp_path, old, new, message):
    with pytest.raises(RecipeError) as caught:
        load_dialect(changed(tmp_path, old, new))
    assert message in f"{caught.value} {caught.value.hint}"


async def test_an_observation_that_is_a_document_is_said_as_canonical_json(tmp_path):
    text = "observation: /data/observation/echoed_message, reward"
    dialect = load_dialect(changed(tmp_path, text, "observation: /data/observation, observation_format: json, reward"))
    async with OpenEnvWorld().serve() as url, build_http() as http:
        endpoint = Endpoint(http, dialect, url, call_seconds=5)
        session = await endpoint.create()
        assert (await endpoint.step(session, "é")).observation == '{"echoed_message":"é","message_length":1}'
        await endpoint.close(session)


async def test_fields_stand_beside_the_type_where_a_frame_has_no_field_for_them(tmp_path):
    dialect = load_dialect(changed(tmp_path, "data_field: data", "data_field: null"))
    world = OpenEnvWorld(fault="fails")
    async with world.serve() as url, build_http() as http:
        endpoint = Endpoint(http, dialect, url, call_seconds=5)
        session = await endpoint.create()
        await failure_of(endpoint.step(session, "lone \ud800"))
        await endpoint.close(session)
    assert world.frames == [{"type": "state"}, {"type": "step", "message": "lone ?"}, {"type": "close"}]


async def test_a_server_with_room_for_one_is_probed_by_one_session_where_the_run_needs_no_more():
    world = OpenEnvWorld(room=1)
    async with world.serve() as url:
        (server,) = (await probe([url], DIALECT, concurrency=1)).servers
    results = {check.name: check.result for check in server.checks}
    assert not server.failed
    assert world.most == 1
    for name in ("create", "reset_determinism", "reset_determinism_concurrent", "close", "latency"):
        assert results[name] == "pass", name
    for name in ("isolation", "id_recycling"):
        assert results[name] == "n/a", name


async def test_replicas_with_room_for_one_session_each_never_get_two():
    worlds = [OpenEnvWorld(room=1), OpenEnvWorld(room=1), OpenEnvWorld(room=1)]
    async with worlds[0].serve() as a, worlds[1].serve() as b, worlds[2].serve() as c:
        client = HttpEnvClient(build_http(), DIALECT, [a, b, c], call_seconds=20)

        async def episodes(lengths: list[int]) -> None:
            for length in lengths:
                session = await client.open()
                await session.reset(0)
                for turn in range(length):
                    assert (await session.step(f"turn {turn}")).observation == f"turn {turn}"
                await session.close()

        await asyncio.gather(episodes([9, 1, 1, 9]), episodes([1, 1, 1, 9]), episodes([1, 9, 1]))
        await client.aclose()
    assert [world.most for world in worlds] == [1, 1, 1]
