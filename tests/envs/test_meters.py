"""What Prometheus reads from a server: sessions, latency by route, errors by kind."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families

from agentgym_envs.meters import BOUNDS, Meter
from tests.envs.servers import ManualClock, SlowWorld, answered, client_of

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(client: httpx.AsyncClient) -> Samples:
    """Every sample by its name and labels, as Prometheus' own parser reads it."""
    reply = await client.get("/metrics")
    assert (reply.status_code, reply.headers["content-type"].partition(";")[0]) == (200, "text/plain")
    families = text_string_to_metric_families(reply.text)
    return {(sample.name, frozenset(sample.labels.items())): sample.value for family in families for sample in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


async def test_requests_are_counted_by_route_and_errors_by_route_and_kind() -> None:
    async with client_of(max_sessions=1) as client:
        for _ in range(2):
            await answered(client, "/create")
        for number in (0, 0, 7):
            await answered(client, "/step", id=number, action="inventory")
        await client.post("/step", content=b"{")
        await client.post("/step", content=b" " * 2_000_000)
        for path in ("/a", "/b"):
            await client.get(path)
        await client.get("/step")
        samples = await scraped(client)
    assert value(samples, "agentgym_request_seconds_count", route="POST /step") == 5
    assert value(samples, "agentgym_request_seconds_bucket", route="POST /step", le="+Inf") == 5
    assert value(samples, "agentgym_request_seconds_count", route="none") == 3
    errors = {
        (labels["route"], labels["kind"]): count
        for (name, given), count in samples.items()
        if name == "agentgym_errors_total"
        for labels in [dict(given)]
    }
    assert errors == {
        ("POST /create", "full"): 1,
        ("POST /step", "unknown_session"): 1,
        ("POST /step", "unprocessable"): 1,
        ("POST /step", "too_large"): 1,
        ("none", "not_found"): 3,
    }


async def test_sessions_are_gauged() -> None:
    clock = ManualClock()
    async with client_of(clock=clock, idle_seconds=10.0, max_sessions=9) as client:
        for _ in range(3):
            await answered(client, "/create")
        await answered(client, "/close", id=1)
        clock.now = 9.0
        await answered(client, "/step", id=2, action="inventory")
        clock.now = 11.0
        await answered(client, "/create")
        samples = await scraped(client)
    names = ("sessions_open", "sessions_most", "sessions_made_total", "sessions_idle_closed_total")
    assert [value(samples, f"agentgym_{name}") for name in names] == [2, 9, 4, 1]


async def test_a_step_past_its_time_is_an_error_of_its_own_kind() -> None:
    world = SlowWorld()
    async with client_of(world, call_seconds=0.25) as client:
        await answered(client, "/create")
        for _ in range(2):
            await answered(client, "/step", id=0, action="held")
        samples = await scraped(client)
        world.gate.set()
    assert [value(samples, "agentgym_errors_total", route="POST /step", kind=kind) for kind in ("too_slow", "broken")] == [1, 1]


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    meter = Meter()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.01, BOUNDS[-1], BOUNDS[-1] * 2):
        meter.observe(seconds)
    assert (meter.counts[0], meter.counts[1], meter.counts[-2], meter.counts[-1], sum(meter.counts)) == (2, 1, 1, 1, 5)
    assert meter.seconds == BOUNDS[0] * 2.01 + BOUNDS[-1] * 3


async def test_a_crash_of_the_world_is_counted_and_reaches_the_server() -> None:
    class Crashing(SlowWorld):
        blocking = False

        def open(self):  # type: ignore[no-untyped-def]
            raise ZeroDivisionError

    async with client_of(Crashing()) as client:
        transport = client._transport
        transport.raise_app_exceptions = False  # type: ignore[attr-defined]
        await client.post("/create", json={})
        samples = await scraped(client)
    assert value(samples, "agentgym_errors_total", route="POST /create", kind="crash") == 1
    assert value(samples, "agentgym_sessions_open") == 0
