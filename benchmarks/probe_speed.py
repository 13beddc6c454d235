"""How long the quick level of the probe takes against many healthy servers in one call.

    python benchmarks/probe_speed.py --servers 1 8 32 128

Serves the laptop TextCraft from that many processes on loopback, probes all of them at once, and prints one row for each number of servers.
Wall time includes the servers' work, which shares this machine's processors; CPU is the probe's and the servers' own, so that a busy machine
can be seen. The processes end with the table.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import launch
from agentgym_cli.env.memory import find_server
from agentgym_cli.env.probe import probe
from agentgym_cli.env.wire import DirectClient, build_http

DIALECT = "textcraft"
WORLD, BOOK = "textcraft", ("--book", "laptop")
START_SECONDS_EACH = 3.0
LONGEST_SECONDS = 300.0
"""Deadline of one probe of all servers."""
HEADER = "| servers | wall s | CPU s of the probe | CPU s of the servers | calls | calls/s | alarms |\n|---|---|---|---|---|---|---|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One probe of all servers."""

    servers: int
    wall: float
    cpu: float
    served: float | None
    """CPU seconds of the servers; None where the system does not tell them."""
    calls: int
    alarms: int

    def row(self) -> str:
        """One line of the table."""
        served = "n/a" if self.served is None else f"{self.served:.1f}"
        return f"| {self.servers} | {self.wall:.1f} | {self.cpu:.1f} | {served} | {self.calls:,} | {self.calls / self.wall:,.0f} | {self.alarms} |"


class Counted(httpx.AsyncBaseTransport):
    """Counts the calls that go through to a transport."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.calls = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One exchange."""
        self.calls += 1
        return await self.inner.handle_async_request(request)


async def measured(servers: int) -> Measured:
    """Serve, probe once, and end the servers."""
    dialect = load_dialect(DIALECT)
    async with launch(WORLD, BOOK, replicas=servers, oracle=True, start_seconds=30 + START_SECONDS_EACH * servers) as urls, build_http() as inner:
        assert isinstance(inner, DirectClient)
        counted = Counted(inner.transport)
        processes = [pid for url in urls if (found := find_server(url)) is not None for pid in found.pids]
        served, wall, cpu = cpu_seconds(processes), time.perf_counter(), time.process_time()
        async with asyncio.timeout(LONGEST_SECONDS):
            report = await probe(urls, dialect, http=build_http(transport=counted))
        wall, cpu, served = time.perf_counter() - wall, time.process_time() - cpu, cpu_seconds(processes) - served
    for server in report.servers:
        for check in server.failed:
            sys.stderr.write(f"{server.url}: {check.name}: {check.detail}\n")
    alarms = sum(len(server.failed) for server in report.servers)
    return Measured(servers=servers, wall=wall, cpu=cpu, served=served if processes else None, calls=counted.calls, alarms=alarms)


def cpu_seconds(processes: Sequence[int]) -> float:
    """User and system time of processes so far."""
    ticks = 0
    for pid in processes:
        # The name before the last parenthesis can hold anything; user and system time are fields 14 and 15 of the whole.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 8, 32, 128], help="numbers of servers")
    options = parser.parse_args()
    sys.stdout.write(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}\n\n{HEADER}\n")
    for servers in options.servers:
        sys.stdout.write(f"{asyncio.run(measured(servers)).row()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
