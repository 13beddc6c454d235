"""The same again: a task in another session, order or company, and a session beside others and over other connections."""

from __future__ import annotations

import asyncio
import time

from agentgym_cli.env.contract import EnvFailure, StepReply
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet, answered, spread
from agentgym_cli.env.probing.play import alone, oracle_actions, over_http, same_reply, same_start

_LISTED_ACTIONS = 12
_CONNECTIONS = 4
_CONFIDENCE = 0.95


async def reset_determinism(bench: Bench) -> str:
    """A task is the same in every session, whatever was played before."""
    indices = bench.indices(bench.effort.tasks)
    for index in indices:
        await bench.first_observation(index)
    async with bench.sessions(1) as [session]:
        for index in reversed(indices):
            same_start(index, bench.seen[index], await bench.endpoint.reset(session, index), "in a session used before")
    return f"{len(indices)} tasks, each the same in another session and order"


async def reset_determinism_concurrent(bench: Bench) -> str:
    """A task is the same when many sessions start one at once."""
    indices = bench.indices(bench.effort.tasks)
    expected = {index: await bench.first_observation(index) for index in indices}
    count, began, resets = bench.room, time.monotonic(), 0
    async with bench.sessions(count) as sessions:
        while resets == 0 or (
            resets < bench.effort.resets and (resets < bench.effort.least_resets or time.monotonic() - began < bench.effort.seconds)
        ):
            chosen = [indices[(resets // count + place) % len(indices)] for place in range(count)]
            replies = answered(await asyncio.gather(*map(bench.endpoint.reset, sessions, chosen), return_exceptions=True))
            for index, observation in zip(chosen, replies, strict=True):
                same_start(index, expected[index], observation, f"with {count} resets at once")
            resets += count
    return f"{resets} resets, {count} at once: would find with 95% probability a fault of at least {100 * least_rate(resets):.2g}% of resets"


def least_rate(trials: int) -> float:
    """The least share of faulty trials of which at least one shows in ``trials`` >= 1 independent ones with a probability of 95%."""
    return 1 - float((1 - _CONFIDENCE) ** (1 / trials))


async def isolation(bench: Bench) -> str:
    """Two sessions played in turns are answered as if each were alone."""
    pair = bench.indices(2)
    first, second = pair[0], pair[-1]
    probing = bench.spec.probe_actions
    listed = spread(bench.spec.random.found(await bench.first_observation(first)), _LISTED_ACTIONS)
    script = await oracle_actions(bench, first) or (*listed, *probing)
    expected = await alone(bench, first, script), await alone(bench, second, probing)
    async with bench.sessions(2) as [one, other]:
        starts = await bench.endpoint.reset(one, first), await bench.endpoint.reset(other, second)
        same_start(first, await bench.first_observation(first), starts[0], "beside another session")
        same_start(second, await bench.first_observation(second), starts[1], "beside another session")
        answers: tuple[list[StepReply], list[StepReply]] = ([], [])
        for turn in range(max(len(expected[0]), len(expected[1]))):
            for place, (session, actions) in enumerate(((one, script), (other, probing))):
                if turn < len(expected[place]):
                    reply = await bench.endpoint.step(session, actions[turn])
                    answers[place].append(reply)
                    same_reply(actions[turn], expected[place][turn], reply, "beside another session")
    return f"{len(answers[0])} and {len(answers[1])} steps, the same as alone"


async def two_clients(bench: Bench) -> str:
    """A session belongs to whoever names it: two clients with connections of their own play the same sessions in turns."""
    over_http(bench)
    if bench.twin is None:
        raise NotApplicable("there are no connections of its own for a second client")
    clients = bench.endpoint, bench.twin
    count, pair = min(_CONNECTIONS, bench.room), bench.indices(2)
    indices = [pair[place % len(pair)] for place in range(count)]
    expected = [await alone(bench, index, bench.spec.probe_actions) for index in indices]
    when = "from a second client"
    async with bench.sessions(count) as sessions:
        try:
            starts = answered(await asyncio.gather(*map(clients[1].reset, sessions, indices), return_exceptions=True))
        except EnvFailure as failure:
            finding = f"expected sessions made over some connections to be known over others, got {failure.cause.value}: {failure}"
            raise NotMet(finding) from failure
        for index, start in zip(indices, starts, strict=True):
            same_start(index, await bench.first_observation(index), start, when)
        for turn, action in enumerate(bench.spec.probe_actions):
            going = [place for place in range(count) if turn < len(expected[place])]
            calls = [clients[(turn + place) % 2].step(sessions[place], action) for place in going]
            replies = answered(await asyncio.gather(*calls, return_exceptions=True))
            for place, reply in zip(going, replies, strict=True):
                same_reply(action, expected[place][turn], reply, when)
    return f"{count} sessions made by one client, played by two in turns"
