"""What a server counts, and how Prometheus reads it. Counting is plain arithmetic; everything else happens when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from agentgym_envs.shell import Shell

MEDIA_TYPE = CONTENT_TYPE_LATEST
BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper ends of the latency histogram's buckets, in seconds."""
NO_ROUTE = "none"
"""How requests to paths that are not there are labelled, all together."""


@dataclass(slots=True)
class Meter:
    """The requests of one route."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """By bucket, not summed up."""
    seconds: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    """By kind."""

    def observe(self, seconds: float) -> None:
        """One request was answered after so many seconds."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class Meters(Collector):
    """Every route's meter, and the shell's sessions, as Prometheus families."""

    def __init__(self, shell: Shell, routes: tuple[str, ...]) -> None:
        self.by_route = {route: Meter() for route in (*routes, NO_ROUTE)}
        self._shell = shell
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        # Memory, processor time and open files of this process, where the system tells them.
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        """What the registry asks for."""
        sessions = self._shell.sessions
        yield GaugeMetricFamily("agentgym_sessions_open", "Sessions that are open or being opened.", value=len(sessions))
        yield GaugeMetricFamily("agentgym_sessions_most", "Sessions that may be open at once.", value=sessions.most)
        yield CounterMetricFamily("agentgym_sessions_made", "Sessions made since the server started.", value=sessions.made)
        yield CounterMetricFamily("agentgym_sessions_idle_closed", "Sessions closed because nobody used them.", value=self._shell.idle_closed)
        latency = HistogramMetricFamily("agentgym_request_seconds", "Seconds from a request's head to its reply, by route.", labels=["route"])
        errors = CounterMetricFamily("agentgym_errors", "Requests that were refused or failed, by route and kind.", labels=["route", "kind"])
        for route, meter in self.by_route.items():
            ends = (*map(str, BOUNDS), "+Inf")
            latency.add_metric([route], list(zip(ends, accumulate(meter.counts), strict=True)), meter.seconds)
            for kind, count in meter.errors.items():
                errors.add_metric([route, kind], count)
        yield latency
        yield errors
