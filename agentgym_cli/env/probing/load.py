"""How much at once: sessions at work side by side, doubled up to what the run will have."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

from agentgym_cli.env.contract import EnvFailure
from agentgym_cli.env.findings import Bench, Found, NotMet, Rung


async def capacity(bench: Bench) -> Found:
    """As many sessions as the run will have at work at once are all answered; slow is no failure."""
    rungs: list[Rung] = []
    for count in ramp(bench.concurrency or bench.spec.probe_sessions):
        try:
            rung, failure = await _climb(bench, count)
        except EnvFailure as failed:
            raise NotMet(f"expected {count} sessions at once, got {failed.cause.value}: {failed}", tuple(rungs)) from failed
        rungs.append(rung)
        if failure is not None:
            finding = f"expected every call of {count} sessions at once to be answered, got {rung.failed} of {rung.calls} that failed"
            raise NotMet(f"{finding}, e.g. {failure.cause.value}: {failure}", tuple(rungs)) from failure
    last = rungs[-1]
    return Found(f"{last.sessions} sessions at once: p50 {last.p50_ms:.1f} ms, p95 {last.p95_ms:.1f} ms, p99 {last.p99_ms:.1f} ms", tuple(rungs))


def ramp(most: int) -> Iterator[int]:
    """1, 2, 4 and so on, and ``most``."""
    count = 1
    while count < most:
        yield count
        count *= 2
    yield most


async def _climb(bench: Bench, count: int) -> tuple[Rung, EnvFailure | None]:
    """Measurements of ``count`` sessions at work at once, and the first failure of a call."""
    until = time.monotonic() + bench.effort.seconds
    async with bench.sessions(count) as sessions:
        work = [_work(bench, session, max(3, bench.effort.rung_calls // count), until) for session in sessions]
        times, failures = zip(*await asyncio.gather(*work), strict=True)
    took = [one for each in times for one in each]
    failed = [failure for failure in failures if failure is not None]
    p = statistics.quantiles(took, n=100, method="inclusive") if len(took) > 1 else took * 99
    rung = Rung(
        sessions=count,
        calls=len(took) + len(failed),
        failed=len(failed),
        p50_ms=p[49] if p else None,
        p95_ms=p[94] if p else None,
        p99_ms=p[98] if p else None,
    )
    return rung, next(iter(failed), None)


async def _work(bench: Bench, session: int | str, calls: int, until: float) -> tuple[list[float], EnvFailure | None]:
    """Milliseconds of each call of a session: resets, and steps between them; and the failure that ended it."""
    took: list[float] = []
    actions, playing = bench.spec.probe_actions, False
    for number in range(calls):
        start = time.perf_counter()
        try:
            if playing:
                playing = not (await bench.endpoint.step(session, actions[number % len(actions)])).done
            else:
                await bench.endpoint.reset(session, bench.first_task)
                playing = True
        except EnvFailure as failure:
            return took, failure
        took.append(1000 * (time.perf_counter() - start))
        if number >= 2 and time.monotonic() > until:
            break
    return took, None
