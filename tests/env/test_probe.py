"""The probe names what is wrong with a server, and nothing where nothing is wrong."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from agentgym_cli.env.checks import CHECKS, Named
from agentgym_cli.env.contract import content_digest
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.findings import spread
from agentgym_cli.env.probe import EFFORT, CheckResult, ProbeReport, probe
from agentgym_cli.errors import RecipeError
from tests.env.toy_world import GREETING, URL, ToyWorld, prompt

SHIPPED = load_dialect("textcraft")
TEXTCRAFT = replace(SHIPPED, spec=replace(SHIPPED.spec, probe_sessions=10))
STICKY = replace(TEXTCRAFT, spec=replace(TEXTCRAFT.spec, done_sticky=True, deviations={}))
TASKS = [(index, content_digest(prompt(index))) for index in range(5)]


@pytest.fixture(autouse=True)
def _less_effort(monkeypatch):
    monkeypatch.setitem(EFFORT, "quick", replace(EFFORT["quick"], resets=10, timed_steps=5))


async def probed(world: ToyWorld, **options) -> dict[str, CheckResult]:
    async with world.http() as http:
        report = await probe([URL], options.pop("dialect", TEXTCRAFT), tasks=TASKS, http=http, **options)
    return {check.name: check for check in report.servers[0].checks}


def failures(checks: dict[str, CheckResult]) -> list[str]:
    return [name for name, check in checks.items() if check.result == "fail"]


@pytest.mark.slow
async def test_a_healthy_server_passes_every_check():
    checks = await probed(ToyWorld("sticky"))
    assert {name for name, check in checks.items() if check.result != "pass"} == {"task_range", "replicas"}
    assert checks["task_range"].detail == "how many tasks there are is not known; a recipe says it in tasks.size"
    assert checks["replicas"].detail == "there is one server"


@pytest.mark.slow
async def test_no_alarm_on_a_healthy_server_over_many_runs():
    for _ in range(5):
        assert failures(await probed(ToyWorld())) == []


@pytest.mark.slow
async def test_the_probe_closes_every_session_it_opens():
    world = ToyWorld()
    await probed(world)
    assert world.opened > 10
    assert world.sessions == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("error in 200", ["step"]),
        ("two-faced under load", ["reset_determinism_concurrent"]),
        ("drifting content", ["reset_determinism", "content"]),
        ("answers for another session", ["isolation"]),
        ("shared inventory", ["isolation"]),
        ("recycled ids", ["create"]),
        ("reward not finite", ["step"]),
        ("reward is a boolean", ["types"]),
        ("ghost", ["unknown_session", "double_close", "use_after_close"]),
        ("crash on unknown", ["error_style", "double_close"]),
        ("crash on close", ["double_close"]),
        ("close does nothing", ["use_after_close"]),
        ("oracle does not solve", ["oracle"]),
        ("invalid action not named", ["step"]),
        ("stale observation", ["observe"]),
        ("other content", ["content"]),
        ("another order", ["content"]),
        ("other environment", ["identity"]),
        ("html", ["identity"]),
        ("hang", ["step"]),
    ],
)
async def test_promise_09_the_probe_names_what_a_faulty_server_gets_wrong(fault, named):
    checks = await probed(ToyWorld(fault), call_seconds=0.2 if fault == "hang" else 10)
    assert failures(checks) == named, {name: checks[name].detail for name in failures(checks)}


@pytest.mark.slow
async def test_done_that_does_not_stay_is_a_known_deviation_where_the_dialect_says_so_and_a_failure_where_not():
    known = (await probed(ToyWorld()))["done_latching"]
    assert known.result == "known deviation"
    assert "the client latches done" in known.detail
    assert failures(await probed(ToyWorld(), dialect=STICKY)) == ["done_latching"]


async def test_without_an_oracle_its_checks_are_not_applicable():
    checks = await probed(ToyWorld("no oracle"))
    assert [checks["oracle"].result, checks["done_latching"].result] == ["n/a", "n/a"]
    assert failures(checks) == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["shared inventory", "answers for another session"])
async def test_sessions_that_touch_are_found_without_an_oracle_too(fault):
    without = replace(TEXTCRAFT, spec=replace(TEXTCRAFT.spec, routes=replace(TEXTCRAFT.spec.routes, oracle=None)))
    assert failures(await probed(ToyWorld(fault), dialect=without)) == ["isolation"]
    assert failures(await probed(ToyWorld(), dialect=without)) == []


async def test_another_environment_is_named_and_nothing_more_is_asked_of_it():
    world = ToyWorld("other environment")
    checks = await probed(world)
    assert checks["identity"].detail.endswith(f"expected greeting {GREETING!r} at '', got 'This is environment BabyAI.'")
    assert {check.result for name, check in checks.items() if name not in ("health", "identity")} == {"n/a"}
    assert world.calls == []


async def test_a_deviation_hides_no_failure_of_another_kind():
    checks = await probed(ToyWorld("hang"), call_seconds=0.1)
    assert checks["step"].result == "fail"
    assert checks["done_latching"].result == "n/a"
    assert checks["done_latching"].detail == "not run, since step failed"


async def test_a_refused_connection_is_a_result():
    report = await probe(["http://127.0.0.1:9"], TEXTCRAFT)
    assert isinstance(report, ProbeReport) and not report.ok
    first, *others = report.servers[0].checks
    assert first.detail.startswith("connect: GET http://127.0.0.1:9/: expected a server")
    assert {check.detail for check in others} == {"not run, since health failed"}


@pytest.mark.slow
async def test_servers_are_probed_side_by_side_and_reported_in_order():
    world = ToyWorld()
    async with world.http() as http:
        report = await probe([URL, "http://toy:2/"], TEXTCRAFT, http=http)
    assert [server.url for server in report.servers] == ["http://toy", "http://toy:2"]
    assert report.ok


async def test_a_check_that_fails_itself_is_a_failure_with_a_traceback_in_the_log(monkeypatch, caplog):
    async def broken(bench):
        raise ZeroDivisionError("oh")

    monkeypatch.setitem(CHECKS, "latency", Named(broken, ("types",)))
    checks = await probed(ToyWorld())
    assert (checks["latency"].result, checks["latency"].detail) == ("fail", "the check itself failed: ZeroDivisionError: 'oh'")
    assert "ZeroDivisionError" in caplog.text


async def test_latency_is_told_in_milliseconds():
    assert re.fullmatch(r"p50 \d+\.\d ms, p95 \d+\.\d ms over 5 steps", (await probed(ToyWorld()))["latency"].detail)


@pytest.mark.slow
async def test_the_full_level_reads_every_pinned_task(monkeypatch):
    monkeypatch.setitem(EFFORT, "full", replace(EFFORT["full"], resets=10, timed_steps=1, creates=4, rung_calls=3, cycles=2))
    tasks = [(index, content_digest(prompt(index))) for index in range(40)]
    details = []
    for level in ("quick", "full"):
        async with ToyWorld().http() as http:
            report = await probe([URL], TEXTCRAFT, tasks=tasks, level=level, http=http)
        details += [check.detail for check in report.servers[0].checks if check.name == "content"]
    assert details == ["32 tasks as pinned", "40 tasks as pinned"]


async def test_an_order_that_is_not_the_pinned_one_is_explained():
    detail = (await probed(ToyWorld("another order")))["content"].detail
    start = "4 of 5 tasks have other content than was pinned, 4 of them that of another task of the list, e.g. task 0 is what the list has as 4: "
    assert detail.startswith(f"{start}the server's order differs from the pinned one; AgentGym's server numbers the goals of one depth in the order")
    assert "agentgym recipe pin" in detail


async def test_content_that_no_pinned_task_has_is_explained():
    detail = (await probed(ToyWorld("other content")))["content"].detail
    expected, got = content_digest(prompt(0)), content_digest(prompt(0) + " ")
    assert detail.startswith(
        "5 of 5 tasks have other content than was pinned, 0 of them that of another task of the list, "
        f"e.g. task 0: expected a first observation with digest {expected}, got {got}, which no task of the list has: "
    )
    assert "another recipe book" in detail and "PYTHONHASHSEED" in detail and "order" not in detail


def test_tasks_are_spread_evenly_over_a_list():
    assert spread([(index, "") for index in range(10)], 4) == [(0, ""), (2, ""), (5, ""), (7, "")]
    assert spread([(7, "")], 4) == [(7, "")]


async def test_a_server_named_twice_is_no_replica_of_itself():
    with pytest.raises(RecipeError, match="expected each server once, got 'http://a:1' again"):
        await probe(["http://a:1", "http://b:1", "http://a:1/"], TEXTCRAFT)


async def test_promise_11_the_password_of_an_address_is_not_repeated():
    with pytest.raises(RecipeError) as caught:
        await probe(["http://user:secret@host"], TEXTCRAFT)
    assert "secret" not in str(caught.value)
