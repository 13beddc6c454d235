"""The server as a process: readers who are slow or silent keep nobody out, and nothing is left behind when it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agentgym_cli.store.loader import load
from agentgym_cli.view.connections import MOST
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, settled, write_journal

pytestmark = pytest.mark.slow
LARGE = 20_000_000
"""Characters of an exported text: more than the system keeps for a reader who takes nothing."""
LONG = "é" * 9_000
"""The name of an episode."""
EXPORT = "export.json?run=r1&episode=eval/test/0/textcraft_0/0"


@dataclass(frozen=True, slots=True)
class Server:
    """A viewer that runs."""

    process: subprocess.Popen[str]
    root: str
    folder: Path

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.root}{path}", timeout=20) as answer:
            return bytes(answer.read())

    def connected(self) -> socket.socket:
        place = urlsplit(self.root)
        assert place.hostname is not None and place.port is not None
        return socket.create_connection((place.hostname, place.port), timeout=20)

    def asking(self, path: str) -> socket.socket:
        """A connection that has asked and reads nothing."""
        place, connection = urlsplit(self.root), self.connected()
        connection.sendall(f"GET {place.path}{path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        return connection


def started(database: Path, folder: Path) -> Server:
    folder.mkdir()
    command = [sys.executable, "-m", "agentgym_cli", "view", "--store", str(database), "--no-open", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(folder)})
    assert process.stdout is not None
    return Server(process, json.loads(process.stdout.readline())["url"], folder)


def ended(server: Server, by: signal.Signals) -> int:
    if server.process.poll() is None:
        server.process.send_signal(by)
    code = server.process.wait(60)
    server.process.communicate()
    return code


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server")
    scheduled = make_scheduled(0)
    attempt = replace(make_attempt(scheduled, "success"), final_observation="x" * LARGE)
    long = [replace(each, episode=LONG) for each in settled(make_scheduled(1), "failure")]  # type: ignore[call-arg]
    records = [make_run(), make_segment(), scheduled, attempt, make_outcome(attempt), *long]
    load(write_journal(folder / "r1", records), folder / "store.duckdb")
    return folder / "store.duckdb"


@pytest.fixture(scope="module")
def server(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = started(database, tmp_path_factory.mktemp("one") / "tmp")
    yield made
    assert ended(made, signal.SIGINT) == 0
    assert list(made.folder.iterdir()) == []


def test_readers_who_take_nothing_keep_nobody_from_pages(server: Server) -> None:
    with ExitStack() as opened:
        for _ in range(8):
            opened.enter_context(server.asking(EXPORT))
        assert b"<h1>Runs</h1>" in server.get("")
    assert len(server.get(EXPORT)) > LARGE, "those who went away hold no place"


def test_silent_connections_make_room_the_longest_silent_first(server: Server) -> None:
    with ExitStack() as opened:
        first = opened.enter_context(server.connected())
        for _ in range(MOST + 20):
            last = opened.enter_context(server.connected())
        assert b"<h1>Runs</h1>" in server.get("")
        with suppress(ConnectionResetError):
            assert first.recv(1) == b""
        last.settimeout(0.2)
        with pytest.raises(TimeoutError):
            last.recv(1)


def test_the_link_to_a_long_name_leads_there(server: Server) -> None:
    found = re.search(r'href="([^"]*episode=%C3%A9[^"]*)"', server.get("episodes?run=r1&outcome=failure").decode())
    assert found is not None
    place = urlsplit(server.root)
    with urllib.request.urlopen(f"{place.scheme}://{place.netloc}{unescape(found[1])}", timeout=20) as answer:
        assert "é" * 100 in answer.read().decode()


@pytest.mark.parametrize(("by", "code"), [(signal.SIGHUP, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_no_copy_of_the_store_is_left_behind(database: Path, tmp_path: Path, by: signal.Signals, code: int) -> None:
    server = started(database, tmp_path / "tmp")
    assert b"<h1>Runs</h1>" in server.get("")
    assert ended(server, by) == code
    assert [path for path in server.folder.rglob("*") if path.is_file()] == []
    assert by is signal.SIGKILL or list(server.folder.iterdir()) == []
