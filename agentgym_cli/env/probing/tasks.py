"""Which tasks a server has: those that were pinned, those of its replicas, and none beyond their count."""

from __future__ import annotations

import time
from collections import Counter

from agentgym_cli.env.content import pinned_tasks
from agentgym_cli.env.contract import EnvFailure, content_digest
from agentgym_cli.env.findings import Bench, NotApplicable, NotMet, spread
from agentgym_cli.env.probing.play import LOST
from agentgym_cli.env.reply import shortened

_CONTENT_SECONDS = 60.0
"""No further task is read after this."""


async def task_range(bench: Bench) -> str:
    """The last task is there, and a number past the end or below 0 is refused."""
    size = bench.size
    if size is None:
        raise NotApplicable("how many tasks there are is not known; a recipe says it in tasks.size")
    if not (await bench.first_observation(size - 1)).strip():
        raise NotMet(f"expected task {size - 1}, the last of {size}, to have a first observation with text, got an empty one")
    for beyond in (size, -1):
        async with bench.sessions(1) as [session]:
            try:
                got = await bench.endpoint.reset(session, beyond)
            except EnvFailure as failure:
                if failure.cause in LOST:
                    raise
                continue
        if got == await bench.first_observation(beyond % size):
            raise NotMet(f"expected task {beyond} of {size} to be refused, got task {beyond % size}: numbers wrap around")
        raise NotMet(f"expected task {beyond} of {size} to be refused, got {shortened(got)}: there are more tasks, or other ones")
    return f"tasks 0 to {size - 1}; {size} and -1 are refused"


async def content(bench: Bench) -> str:
    """Tasks have the content that was pinned."""
    pinned = [(index, digest) for index, digest in bench.tasks if digest]
    if not pinned:
        raise NotApplicable("no task has a pinned digest")
    known = pinned_tasks(bench.spec, pinned)
    chosen, read, began = spread(pinned, bench.effort.pinned_tasks), 0, time.monotonic()
    wrong: list[tuple[int, str, str]] = []
    async with bench.sessions(1) as [session]:
        for index, digest in chosen:
            got = bench.digests[index] = content_digest(await bench.endpoint.reset(session, index))
            read += 1
            if got != digest:
                wrong.append((index, digest, got))
            if time.monotonic() - began > _CONTENT_SECONDS:
                break
    if wrong:
        moved = [each for each in wrong if known.moved(each[2])]
        index, expected, got = (moved or wrong)[0]
        raise NotMet(
            f"{len(wrong)} of {read} tasks have other content than was pinned, {len(moved)} of them that of another task of the list, "
            f"e.g. {known.mismatch(index, expected=expected, got=got)}"
        )
    return f"{read} tasks as pinned" + (f", of {len(chosen)} in the time there was" if read < len(chosen) else "")


async def replicas(bench: Bench) -> str:
    """A task is the same at every server of the call."""
    if not bench.others:
        raise NotApplicable("there is one server")
    compared, wrong = 0, []
    for index, own in bench.digests.items():
        elsewhere = [other.digests[index] for other in bench.others if index in other.digests]
        compared += bool(elsewhere)
        if elsewhere and own != _usual(bench, index):
            wrong.append(index)
    if not compared:
        raise NotApplicable("no other server of the call told a task that this one did")
    if wrong:
        expected = _usual(bench, wrong[0])
        where = next(other.endpoint.url for other in bench.others if other.digests.get(wrong[0]) == expected)
        raise NotMet(
            f"{len(wrong)} of {compared} tasks differ from those of most servers of the call, e.g. task {wrong[0]}: "
            f"expected {expected} as at {where}, got {bench.digests[wrong[0]]}"
        )
    return f"{compared} tasks, the same at {1 + len(bench.others)} servers"


def _usual(bench: Bench, index: int) -> str:
    """The digest that most servers of the call have for a task; of several, that of the server named first."""
    servers = sorted([bench, *bench.others], key=lambda server: server.place)
    return Counter(server.digests[index] for server in servers if index in server.digests).most_common(1)[0][0]
