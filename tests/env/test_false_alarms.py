"""Healthy servers raise no alarm: fifty runs at the level that training makes, in any order, with any hash seed, beside a busy processor."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from agentgym_cli.env.client import HttpEnvClient
from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import serving
from agentgym_cli.env.probe import ProbeReport, probe
from agentgym_cli.env.survey import survey
from agentgym_cli.env.wire import build_http
from agentgym_envs.textcraft.book import shipped_book
from tests.env.cage import Den, Healthy, textcraft
from tests.env.test_shipped_dialects import FAMILIES, IDS, URL
from tests.env.upstream_worlds import Upstream

pytestmark = pytest.mark.slow

TEXTCRAFT = load_dialect("textcraft")
BOOKS = ("laptop", "big")
PROCESSES = 4
"""Servers of each book that are processes with a hash seed each."""
RUNS = 50


@pytest.fixture
def busy() -> Iterator[None]:
    """One thread that always has something to do, and takes turns every half millisecond."""
    ended, usual = threading.Event(), sys.getswitchinterval()
    sys.setswitchinterval(0.0005)

    def work() -> None:
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=work)
    thread.start()
    yield
    ended.set()
    thread.join()
    sys.setswitchinterval(usual)


def in_process(book: str) -> httpx.AsyncClient:
    """A client of a shipped world in this process."""
    return build_http(transport=Den(upstream=Healthy(textcraft(book=book))))


async def pinned(book: str) -> list[tuple[int, str]]:
    """Sixteen tasks of a book, with their digests."""
    env = HttpEnvClient(in_process(book), TEXTCRAFT, [URL])
    found = await survey(env, TEXTCRAFT.spec, range(16), attempts=1)
    await env.aclose()
    return [(index, content.digest) for index, content in found.items()]


def alarms(report: ProbeReport) -> dict[str, str]:
    return {f"{server.url} {check.name}": check.detail for server in report.servers for check in server.failed}


async def test_fifty_runs_against_healthy_servers_raise_no_alarm(busy):
    order = random.Random(7)
    here: list[Callable[[], httpx.AsyncClient]] = [Upstream(family, ids=IDS.get(family)).http for family in FAMILIES]
    runs = [(family, http, []) for family, http in zip(FAMILIES, here, strict=True)]
    for book in BOOKS:
        tasks = await pinned(book)
        runs += [("textcraft", lambda book=book: in_process(book), tasks)] * 14
        assert await _processes(book, tasks, order) == {}
    order.shuffle(runs)
    for family, http, tasks in runs:
        async with http() as client:
            assert alarms(await probe([URL], load_dialect(family), tasks=tasks, http=client)) == {}
    assert len(runs) + len(BOOKS) * PROCESSES == RUNS


async def _processes(book: str, tasks: list[tuple[int, str]], order: random.Random) -> dict[str, str]:
    """The alarms of one probe of several servers, each with a hash seed of its own, started and asked in an order that chance decides."""
    served = [sys.executable, "-m", "agentgym_envs", "textcraft", "--port", "0", "--exit-with-parent", "--oracle", "--book", book]
    commands = [["env", f"PYTHONHASHSEED={order.randrange(2**32)}", *served] for _ in range(PROCESSES)]
    async with serving(commands, name=f"TextCraft with the {book} book") as urls:
        asked = order.sample(urls, len(urls))
        return alarms(await probe(asked, TEXTCRAFT, tasks=tasks, size=shipped_book(book).task_count))
