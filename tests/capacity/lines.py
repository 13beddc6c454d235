"""One waiting line, M/M/c: in closed form (Erlang C), and played event by event by the stations of a simulated step."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import simpy

from agentgym_cli.capacity.simulate import Station, Waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """An M/M/c line in its long run (Erlang C)."""

    utilisation: float
    """Share of the servers' time that is used."""
    waiting: float
    """Mean seconds in line."""
    response: float
    """Mean seconds in line and in service."""
    inside: float
    """Mean number in line and in service, by Little's law."""


def erlang_c(arrivals: float, seconds: float, servers: int) -> Queue | None:
    """M/M/c with ``arrivals`` a second and a mean service of ``seconds``; None where the line grows without end.

    Raises ValueError for rates or times that are not positive, or no server.
    """
    if not (arrivals > 0 and seconds > 0 and servers > 0):
        raise ValueError(f"queue: expected positive rates, seconds and servers, got {arrivals}, {seconds} and {servers}")
    offered = arrivals * seconds
    if offered >= servers:
        return None
    # Erlang B by recursion, which neither overflows nor cancels; C from it.
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    waits = blocked / (1 - offered / servers * (1 - blocked))
    waiting = waits * seconds / (servers - offered)
    return Queue(utilisation=offered / servers, waiting=waiting, response=waiting + seconds, inside=arrivals * (waiting + seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedQueue:
    """One line in front of one station, in its long run."""

    response: float
    """Mean seconds in line and in service."""
    waiting: float
    utilisation: float


def simulate_queue(arrivals: float, seconds: float, servers: int, *, customers: int, seed: int) -> SimulatedQueue:
    """M/M/c: that many customers, the first tenth of them left out while the line grows to its usual length."""
    draw, clock = Random(seed), simpy.Environment()
    station = Station(clock, servers)
    skipped = customers // 10
    spent = [0.0, 0.0]

    def customer(needed: float, counts: bool) -> Waits:
        came = clock.now
        yield from station.serve(needed)
        if counts:
            spent[0] += clock.now - came
            spent[1] += needed

    def door() -> Waits:
        for number in range(customers):
            yield clock.timeout(draw.expovariate(arrivals))
            clock.process(customer(draw.expovariate(1 / seconds), number >= skipped))

    clock.process(door())
    clock.run()
    counted = customers - skipped
    return SimulatedQueue(response=spent[0] / counted, waiting=(spent[0] - spent[1]) / counted, utilisation=station.used / (servers * clock.now))
