"""``agentgym serve`` as people start and end it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from tests.e2e.commands import run, start

pytestmark = pytest.mark.e2e


def url_of(line: str) -> str:
    return str(json.loads(line)["url"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_world_with_the_command(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, "serve", "package_prep", "--port", "0") as command:
        assert command.stdout is not None
        url = url_of(command.stdout.readline())
        assert httpx.get(url).json() == {"world": "package_prep", "tasks": 120}
        command.send_signal(number)
        out, err = command.communicate(timeout=60)
    assert (out, "Traceback" in err) == ("", False)
    with pytest.raises(httpx.TransportError):
        httpx.get(url)


def test_when_the_command_is_killed_the_world_does_not_linger(tmp_path: Path) -> None:
    with start(tmp_path, "serve", "package_prep", "--port", "0", "--replicas", "2") as command:
        assert command.stdout is not None
        urls = [url_of(command.stdout.readline()) for _ in range(2)]
        assert all(httpx.get(url).status_code == 200 for url in urls)
        command.kill()
        assert command.stdout.read() == "", "end of its output is the end of the servers, which hold the other side"


def test_the_list_and_wrong_words_come_through(tmp_path: Path) -> None:
    listed = run(tmp_path, "serve", "--list", "--json")
    assert (listed.code, {row["world"] for row in listed.json} >= {"package_prep", "textcraft"}) == (0, True)
    assert run(tmp_path, "serve").code == 2
    wrong = run(tmp_path, "serve", "chess")
    assert (wrong.code, "invalid choice: 'chess'" in wrong.err) == (2, True)
    helped = run(tmp_path, "serve", "package_prep", "--help")
    assert (helped.code, helped.out.startswith("usage: agentgym serve package_prep")) == (0, True)
