"""What the levels of a probe add, what a probe of several servers compares, and when it gives a server up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest

from agentgym_cli.env.checks import CHECKS, checks_of
from agentgym_cli.env.contract import content_digest
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.dialect_schema import CheckName
from agentgym_cli.env.probe import EFFORT, CheckResult, ProbeReport, probe
from agentgym_cli.env.probing.load import ramp
from agentgym_cli.env.probing.repeats import least_rate
from agentgym_cli.env.wire import build_http
from tests.env.toy_world import URL, Played, ToyWorld, prompt, reply
from tests.episode.virtual_time import run_virtual

pytestmark = pytest.mark.slow

SHIPPED = load_dialect("textcraft")
TEXTCRAFT = replace(SHIPPED, spec=replace(SHIPPED.spec, probe_sessions=4, done_sticky=True, deviations={}))
LITTLE = {"resets": 4, "least_resets": 0, "timed_steps": 2, "creates": 6, "rung_calls": 12, "cycles": 4}


@pytest.fixture(autouse=True)
def _less_effort(monkeypatch):
    for level, effort in EFFORT.items():
        monkeypatch.setitem(EFFORT, level, replace(effort, **LITTLE))


async def reported(*worlds: ToyWorld, urls: tuple[str, ...] = (URL,), **options) -> ProbeReport:
    """A probe of toy worlds, of which each answers to a host of its own: toy, toy1, toy2."""
    transports = {f"toy{place or ''}": httpx.ASGITransport(world.app(), raise_app_exceptions=False) for place, world in enumerate(worlds)}

    async def handle(request: httpx.Request) -> httpx.Response:
        return await transports[request.url.host].handle_async_request(request)

    async with build_http(transport=httpx.MockTransport(handle)) as http:
        return await probe(urls, options.pop("dialect", TEXTCRAFT), http=http, **options)


async def probed(world: ToyWorld, **options) -> dict[str, CheckResult]:
    return {check.name: check for check in (await reported(world, **options)).servers[0].checks}


def results(checks: dict[str, CheckResult], wanted: str) -> list[str]:
    return [name for name, check in checks.items() if check.result == wanted]


def test_every_name_that_a_dialect_may_declare_is_a_check_and_the_other_way_round():
    assert sorted(CHECKS) == sorted(CheckName.__args__)


def test_each_level_makes_the_checks_of_the_one_before_and_more():
    quick, full, soak = (set(checks_of(level)) for level in ("quick", "full", "soak"))
    assert full - quick == {"capacity", "recovery", "oversized", "hostile_text", "leak"}
    assert soak - full == {"idle_expiry"}
    assert quick < full < soak == set(CHECKS)


def test_a_check_comes_after_those_it_makes_no_sense_without():
    order = list(CHECKS)
    assert all(order.index(need) < order.index(name) for name, named in CHECKS.items() for need in named.after)


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.95), (96, 0.0307), (958, 1 / 320)])
def test_the_rate_found_is_that_which_hides_from_all_trials_with_a_probability_of_5_percent(trials, rate):
    assert least_rate(trials) == pytest.approx(rate, rel=0.01)
    assert (1 - least_rate(trials)) ** trials == pytest.approx(0.05)


def test_958_resets_are_the_fewest_that_find_a_race_of_1_in_320():
    assert least_rate(958) <= 1 / 320 < least_rate(957)


async def test_level_soak_makes_the_resets_that_it_promises_however_slow_they_are(monkeypatch):
    monkeypatch.setitem(EFFORT, "soak", replace(EFFORT["soak"], seconds=0.0, resets=3200, least_resets=958))
    detail = (await probed(ToyWorld("sticky"), level="soak", idle_seconds=0.001))["reset_determinism_concurrent"].detail
    assert detail == "960 resets, 4 at once: would find with 95% probability a fault of at least 0.31% of resets"


async def test_a_healthy_server_passes_the_checks_of_every_level():
    for level in ("full", "soak"):
        checks = await probed(ToyWorld("sticky"), level=level, idle_seconds=0.001)
        assert {name: checks[name].detail for name in checks if checks[name].result != "pass"}.keys() == {"content", "task_range", "replicas"}


async def test_replicas_with_other_tasks_are_named_beside_those_that_agree():
    urls = (URL, "http://toy1", "http://toy2")
    report = await reported(ToyWorld("sticky"), ToyWorld("other content"), ToyWorld("sticky"), urls=urls)
    found = [next(check for check in server.checks if check.name == "replicas") for server in report.servers]
    assert [check.result for check in found] == ["pass", "fail", "pass"]
    assert found[0].detail == "4 tasks, the same at 3 servers"
    expected, got = content_digest(prompt(0)), content_digest(prompt(0) + " ")
    assert found[1].detail == (
        f"4 of 4 tasks differ from those of most servers of the call, e.g. task 0: expected {expected} as at http://toy, got {got}"
    )


async def test_of_two_replicas_that_differ_the_second_is_named():
    report = await reported(ToyWorld("other content"), ToyWorld("sticky"), urls=(URL, "http://toy1"))
    assert [[check.name for check in server.failed if check.name == "replicas"] for server in report.servers] == [[], ["replicas"]]


async def test_replicas_that_cannot_be_compared_are_not_judged():
    report = await reported(ToyWorld("sticky"), ToyWorld("html"), urls=(URL, "http://toy1"))
    compared = [check for server in report.servers for check in server.checks if check.name == "replicas"]
    assert [check.detail for check in compared] == ["no other server of the call told a task that this one did", "not run, since identity failed"]


class Numbered(ToyWorld):
    """Knows five tasks: refuses other numbers, or takes them modulo five, or makes a task of any number."""

    async def reset(self, session: Played, body: dict[str, int]):
        index = body["data_idx"]
        if self.fault == "wraps":
            body = {**body, "data_idx": index % 5}
        elif self.fault != "endless" and not 0 <= index < 5:
            return reply({"error": f"The data_idx {index} is out of range."})
        return await super().reset(session, body)


@pytest.mark.parametrize(
    ("fault", "result", "detail"),
    [
        ("", "pass", "tasks 0 to 4; 5 and -1 are refused"),
        ("wraps", "fail", "expected task 5 of 5 to be refused, got task 0: numbers wrap around"),
        ("endless", "fail", "expected task 5 of 5 to be refused, got 'Crafting commands:"),
    ],
)
async def test_a_task_past_the_end_is_refused_or_named_as_what_it_is(fault, result, detail):
    checks = await probed(Numbered(fault), size=5)
    assert (checks["task_range"].result, checks["task_range"].detail[: len(detail)]) == (result, detail)


async def test_a_wrap_around_that_the_dialect_declares_is_a_known_deviation():
    declared = replace(TEXTCRAFT, spec=replace(TEXTCRAFT.spec, deviations={"task_range": "recipes refuse such numbers"}))
    found = (await probed(Numbered("wraps"), size=5, dialect=declared))["task_range"]
    assert (found.result, found.detail.endswith("numbers wrap around (recipes refuse such numbers)")) == ("known deviation", True)


async def test_load_is_doubled_up_to_what_the_run_will_have_and_measured_at_each_rung():
    capacity = (await probed(ToyWorld("sticky"), level="full", concurrency=6))["capacity"]
    assert capacity.result == "pass"
    assert [rung.sessions for rung in capacity.rungs] == [1, 2, 4, 6]
    assert [rung.calls for rung in capacity.rungs] == [12, 12, 12, 18]
    assert all(rung.failed == 0 and 0 < rung.p50_ms <= rung.p95_ms <= rung.p99_ms for rung in capacity.rungs)


async def test_the_sessions_of_a_run_are_shared_by_its_servers():
    report = await reported(ToyWorld("sticky"), ToyWorld("sticky"), urls=(URL, "http://toy1"), level="full", concurrency=7)
    found = [check for server in report.servers for check in server.checks if check.name == "capacity"]
    assert [[rung.sessions for rung in check.rungs] for check in found] == [[1, 2, 4]] * 2


class Crowded(ToyWorld):
    """Refuses a session beside more than four others."""

    def create(self):
        return reply({"error": "full"}) if len(self.sessions) > 4 else super().create()


async def test_a_server_that_has_not_the_room_of_the_run_is_named_with_what_it_could_do():
    capacity = (await probed(Crowded("sticky"), level="full", concurrency=8))["capacity"]
    assert (capacity.result, [rung.sessions for rung in capacity.rungs]) == ("fail", [1, 2, 4])
    assert capacity.detail.startswith("expected 8 sessions at once, got reported_error: POST /create at http://toy: expected an answer")


@pytest.mark.parametrize(("most", "rungs"), [(1, [1]), (2, [1, 2]), (5, [1, 2, 4, 5]), (8, [1, 2, 4, 8])])
def test_a_ramp_ends_with_what_was_asked_for(most, rungs):
    assert list(ramp(most)) == rungs


class Dying(ToyWorld):
    """Answers as many calls as it is told, and is gone."""

    left = 0

    async def answer(self, request):
        self.left -= 1
        if self.left < 0:
            raise httpx.ConnectError("gone")
        return await super().answer(request)

    async def hello(self, request):
        if self.left < 0:
            raise httpx.ConnectError("gone")
        return await super().hello(request)


async def test_a_server_that_dies_is_named_once_and_asked_no_more():
    world = Dying("sticky")
    world.left = 30
    transport = httpx.ASGITransport(world.app(), raise_app_exceptions=True)
    async with build_http(transport=transport) as http:
        report = await probe([URL], TEXTCRAFT, http=http)
    (failed,) = report.servers[0].failed
    assert failed.detail.startswith("connect: ")
    after = list(report.servers[0].checks)[list(CHECKS).index(failed.name) + 1 :]
    assert {check.detail for check in after} <= {f"not run, since the server was gone after {failed.name}", f"not run, since {failed.name} failed"}
    assert len(after) > 5


def test_a_server_that_lets_calls_hang_is_given_up_after_two_checks():
    class Hanging(ToyWorld):
        async def answer(self, request):
            if request.url.path in ("/step", "/observation"):
                await asyncio.Event().wait()
            return await super().answer(request)

    checks = run_virtual(probed(Hanging("sticky")))
    assert results(checks, "fail") == ["observe", "step"]
    assert checks["reset_determinism"].detail == "not run, since calls of observe and step were not answered in time"


async def test_who_asks_is_told_each_check_that_is_over():
    told: list[tuple[str, str]] = []
    await reported(ToyWorld("sticky"), told=lambda url, name: told.append((url, name)))
    assert sorted(told) == sorted((URL, name) for name in checks_of("quick"))


async def test_a_redirect_is_named_and_not_followed():
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.host == "toy"
        return httpx.Response(307, headers={"location": "http://elsewhere/"})

    async with build_http(transport=httpx.MockTransport(answer)) as http:
        health, *_ = (await probe([URL], TEXTCRAFT, http=http)).servers[0].checks
    assert health.detail == "expected HTTP 2xx, got 307: a redirect, which is never followed; give the address that it leads to"


async def test_the_bearer_token_is_sent_with_every_request_of_every_level():
    seen: set[str | None] = set()

    class Guarded(ToyWorld):
        async def answer(self, request):
            seen.add(request.headers.get("authorization"))
            return await super().answer(request)

    await probed(Guarded("sticky"), level="soak", idle_seconds=0.001, token="s3cret")
    assert seen == {"Bearer s3cret"}
