"""A probe of AgentGym's servers finds what their dialects declare, nothing more and nothing less; an episode on each ends as it should."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import agentgym_envs
from agentgym_cli.env.client import HttpEnvClient, build_http
from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.dialect import load_dialect, shipped_dialects
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.probe import probe
from agentgym_cli.episode.actions import ActionFormat
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.scripted import ScriptedPolicy
from agentgym_cli.episode.types import Outcome, ScheduledEpisode, StopReason, Task
from tests.env.upstream_worlds import TOOLS, WINS, Upstream
from tests.episode.fakes import BUDGETS

FAMILIES = tuple(WINS)
IDS = {"webshop": 8000, "sqlgym": 8}
NEED_AN_ORACLE = {"oracle", "done_latching"}
NOT_HERE = {"id_recycling", "task_range"}
"""Deviations that a quick probe of a few sessions, without a count of tasks, does not meet."""
URL = "http://upstream"
CRASHES = {"webshop", "sqlgym", "searchqa", *TOOLS}
STICKY = {"babyai", "sciworld", "alfworld", "maze", "wordle"}


def server_of(family: str) -> Upstream:
    return Upstream(family, ids=IDS.get(family))


def endpoint_of(server: Upstream) -> Endpoint:
    return Endpoint(server.http(), load_dialect(server.family), URL, call_seconds=1)


async def cause_of(call) -> InfraCause:
    with pytest.raises(EnvFailure) as caught:
        await call
    return caught.value.cause


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
async def test_promise_09_a_server_as_it_is_known_passes_but_for_what_its_dialect_declares(family):
    server, dialect = server_of(family), load_dialect(family)
    async with server.http() as http:
        report = await probe([URL], dialect, http=http)
    results = {check.name: check.result for check in report.servers[0].checks}
    assert {check.name: check.detail for check in report.servers[0].failed} == {}
    declared = set(dialect.spec.deviations) - NEED_AN_ORACLE - NOT_HERE
    assert {name for name, result in results.items() if result == "known deviation"} == declared
    absent = set() if dialect.spec.routes.close else {"close", "double_close", "use_after_close"}
    assert {name for name, result in results.items() if result == "n/a"} == {*NEED_AN_ORACLE, *absent, "content", "task_range", "replicas"}
    assert server.sessions == {} or dialect.spec.routes.close is None


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
async def test_what_a_dialect_declares_would_otherwise_be_a_failure(family):
    dialect = load_dialect(family)
    bare = replace(dialect, spec=replace(dialect.spec, done_sticky=True, session=replace(dialect.spec.session, recycled=False), deviations={}))
    async with server_of(family).http() as http:
        report = await probe([URL], bare, http=http)
    blocked = {"error_style"} if family == "webarena" else set()
    assert {check.name for check in report.servers[0].failed} == set(dialect.spec.deviations) - NEED_AN_ORACLE - NOT_HERE - blocked


@pytest.mark.slow
@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in TOOLS[1:]])
async def test_a_server_of_another_family_is_told_apart(family):
    for other in set(FAMILIES) - {family, *TOOLS[1:]}:
        async with server_of(other).http() as http:
            report = await probe([URL], load_dialect(family), http=http)
        assert not report.ok, other


async def test_a_tool_server_is_told_from_another_by_its_tasks_alone():
    async with server_of("movie").http() as http:
        assert (await probe([URL], load_dialect("weather"), http=http)).ok
        report = await probe([URL], load_dialect("weather"), tasks=[(0, "0123456789abcdef")], http=http)
    assert [check.name for check in report.servers[0].failed] == ["content"]


@pytest.mark.parametrize("family", FAMILIES)
async def test_an_episode_is_played_to_a_success(family):
    server, dialect = server_of(family), load_dialect(family)
    action_format: ActionFormat = "react" if "react" in dialect.spec.actions else "plain" if "plain" in dialect.spec.actions else "code_block"
    known = [WINS[family].removeprefix("```").removesuffix("```")] if action_format == "code_block" else [WINS[family]]
    if family != "sqlgym":
        known.insert(0, dialect.spec.probe_actions[0].strip("`"))
    task = Task(id=f"{family}_3", index=3, split="test", category="", goal="", digest="")
    rules = dialect.rules()
    result = await run_episode(
        ScheduledEpisode(phase="evaluation", step=0, task=task, sample=0, horizon=5),
        attempt=1,
        seed=1,
        policy=ScriptedPolicy({task.id: known}, action_format=action_format),
        env=HttpEnvClient(server.http(), dialect, [URL]),
        rules=rules,
        action_rule=rules.actions[action_format],
        budgets=BUDGETS,
    )
    assert (result.stop, result.outcome, len(result.turns)) == (StopReason.DONE, Outcome.SUCCESS, len(known))
    assert all(turn.valid for turn in result.turns)
    assert server.calls.count("/step") == len(known)
    assert server.sessions == {} or dialect.spec.routes.close is None


@pytest.mark.parametrize("family", FAMILIES)
async def test_promise_02_a_session_that_is_not_there_is_a_failure_with_its_cause(family):
    endpoint = endpoint_of(server_of(family))
    expected = InfraCause.SERVER_5XX if family in CRASHES else InfraCause.REPORTED_ERROR
    assert await cause_of(endpoint.reset(77, 0)) is expected
    assert await cause_of(endpoint.step(77, WINS[family])) is expected
    if endpoint.dialect.spec.routes.observe is not None:
        assert await cause_of(endpoint.observe(77)) is (InfraCause.SERVER_5XX if family == "webarena" else expected)


@pytest.mark.parametrize("family", FAMILIES)
async def test_promise_02_a_task_that_is_not_there_is_a_failure(family):
    if family == "webarena":
        pytest.skip("its tasks are files, of which this one has every one")
    endpoint = endpoint_of(server_of(family))
    session = await endpoint.create()
    assert await cause_of(endpoint.reset(session, 1_000_000)) is (InfraCause.SERVER_5XX if family in CRASHES else InfraCause.REPORTED_ERROR)


@pytest.mark.parametrize("family", FAMILIES)
async def test_after_done_a_server_refuses_or_goes_on_as_its_dialect_says(family):
    server = server_of(family)
    endpoint = endpoint_of(server)
    session = await endpoint.create()
    await endpoint.reset(session, 1)
    reply = await endpoint.step(session, WINS[family])
    assert reply.done
    assert reply.observation
    assert server.family in STICKY or endpoint.dialect.spec.routes.observe is not None
    if family in STICKY:
        assert await cause_of(endpoint.step(session, WINS[family])) is InfraCause.REPORTED_ERROR
        assert await cause_of(endpoint.observe(session)) is InfraCause.REPORTED_ERROR
    else:
        assert (await endpoint.step(session, endpoint.dialect.spec.probe_actions[0])).done is (family == "sqlgym")
    assert endpoint.dialect.spec.done_sticky is (family in STICKY or family == "sqlgym")


@pytest.mark.parametrize("family", FAMILIES)
async def test_sessions_are_closed_where_that_is_possible_and_refusals_are_known(family):
    server = server_of(family)
    endpoint = endpoint_of(server)
    session = await endpoint.create()
    await endpoint.close(session)
    if endpoint.dialect.spec.routes.close is None:
        assert "/close" not in server.calls
        return
    assert server.sessions == {}
    again = {"sciworld": InfraCause.SERVER_5XX, "babyai": InfraCause.REPORTED_ERROR, "searchqa": InfraCause.REPORTED_ERROR}
    if family in again:
        assert await cause_of(endpoint.close(session)) is again[family]
    else:
        await endpoint.close(session)


@pytest.mark.parametrize("family", FAMILIES)
async def test_promise_02_rewards_are_integers_or_fractions_and_nothing_else(family):
    server = server_of(family)
    paid: list[object] = []

    def answer(request: httpx.Request) -> httpx.Response:
        reply = server.answer(request)
        if not request.url.path.endswith("/step"):
            return reply
        return httpx.Response(200, json=reply.json() | {key: paid[0] for key in ("reward", "score") if key in reply.json()})

    endpoint = Endpoint(build_http(transport=httpx.MockTransport(answer)), load_dialect(family), URL, call_seconds=1)
    session = await endpoint.create()
    for paid[:] in ([1], [0.5], [-100]):
        await endpoint.reset(session, 1)
        assert (await endpoint.step(session, WINS[family])).reward == float(paid[0])
    for paid[:] in ([True], ["1.0"], [None]):
        await endpoint.reset(session, 1)
        assert await cause_of(endpoint.step(session, WINS[family])) is InfraCause.PROTOCOL, paid


def test_every_shipped_dialect_is_probed_here_unless_it_is_openenv_or_of_a_world_that_ships():
    worlds = {path.name for path in Path(agentgym_envs.__file__).parent.iterdir() if path.is_dir()}
    assert set(shipped_dialects()) - (worlds - set(FAMILIES)) - {"openenv"} == set(FAMILIES)


def test_the_tool_servers_are_spoken_to_alike():
    assert len({str(load_dialect(name).spec.routes) for name in TOOLS}) == 1
    assert len({str(load_dialect(name).spec.actions) for name in TOOLS}) == 1
