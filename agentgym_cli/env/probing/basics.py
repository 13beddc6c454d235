"""Is it there, is it the right environment, and does it answer the calls of an episode in the form that the dialect says."""

from __future__ import annotations

import statistics
import time

from agentgym_cli.env.findings import Bench, NotApplicable, NotMet
from agentgym_cli.env.probing.play import NONSENSE, oracle_actions, play
from agentgym_cli.env.reply import WrongForm, shortened


async def health(bench: Bench) -> str:
    """The server is up."""
    status, _ = await bench.endpoint.greeting()
    if 300 <= status < 400:
        raise NotMet(f"expected HTTP 2xx, got {status}: a redirect, which is never followed; give the address that it leads to")
    if not 200 <= status < 300:
        raise NotMet(f"expected HTTP 2xx, got {status}")
    return f"HTTP {status}"


async def identity(bench: Bench) -> str:
    """The server is the environment that the dialect describes."""
    greeting = bench.spec.routes.health.greeting
    status, body = await bench.endpoint.greeting()
    if not greeting.holds(status, body):
        raise NotMet(f"this is another environment, or none: expected greeting {greeting.described()}, got {shortened(body)}")
    return shortened(body)


async def create(bench: Bench) -> str:
    """Sessions can be made at the same time, and each has an id of its own."""
    count = bench.room
    async with bench.sessions(count) as sessions:
        twice = [session for session in dict.fromkeys(sessions) if sessions.count(session) > 1]
        if twice:
            raise NotMet(f"expected {count} sessions with ids of their own, got id {shortened(twice[0])} for {sessions.count(twice[0])} of them")
    return f"{count} sessions at once"


async def reset(bench: Bench) -> str:
    """A task starts with an observation that has text."""
    observation = await bench.first_observation(bench.first_task)
    if not observation.strip():
        raise NotMet("expected a first observation with text, got an empty one")
    return f"{len(observation)} characters"


async def observe(bench: Bench) -> str:
    """The observation route repeats the observation of the reset."""
    if bench.spec.routes.observe is None:
        raise NotApplicable("the dialect has no such route")
    async with bench.sessions(1) as [session]:
        first = await bench.endpoint.reset(session, bench.first_task)
        again = await bench.endpoint.observe(session)
    if again != first:
        raise NotMet(f"expected the observation of the reset, {shortened(first)}, got {shortened(again)}")
    return "repeats the last observation"


async def step(bench: Bench) -> str:
    """An action is answered, and one that no world knows is called invalid."""
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, bench.first_task)
        try:
            reply = await bench.endpoint.step(session, NONSENSE)
        except WrongForm as failure:
            bench.malformed = failure
            raise NotApplicable("the answer has another form than the dialect says; see types") from failure
    if bench.spec.invalid_action and not bench.spec.says_invalid(reply.observation):
        raise NotMet(f"expected an action that no world knows to be called invalid, got {shortened(reply.observation)}")
    return f"reward {reply.reward:g}, done {str(reply.done).lower()} for an unknown action"


async def types(bench: Bench) -> str:
    """At every step of a task the observation is text, the reward a finite number and done true or false."""
    if bench.malformed is not None:
        raise NotMet(str(bench.malformed)) from bench.malformed
    actions = await oracle_actions(bench, bench.first_task) or bench.spec.probe_actions
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, bench.first_task)
        try:
            replies = await play(bench.endpoint, session, actions)
        except WrongForm as failure:
            raise NotMet(str(failure)) from failure
    return f"{len(replies)} steps{' to the end of a task' if replies and replies[-1].done else ''}"


async def latency(bench: Bench) -> str:
    """How long a step takes; slow is no failure."""
    began = time.monotonic()
    times: list[float] = []
    async with bench.sessions(1) as [session]:
        await bench.endpoint.reset(session, bench.first_task)
        while not times or (len(times) < bench.effort.timed_steps and time.monotonic() - began < bench.effort.seconds):
            start = time.perf_counter()
            reply = await bench.endpoint.step(session, bench.spec.probe_actions[0])
            times.append(1000 * (time.perf_counter() - start))
            if reply.done:
                await bench.endpoint.reset(session, bench.first_task)
    p95 = statistics.quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
    return f"p50 {statistics.median(times):.1f} ms, p95 {p95:.1f} ms over {len(times)} steps"
