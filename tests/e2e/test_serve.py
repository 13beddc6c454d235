"""``agentgym serve`` as people start and end it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.e2e.commands import run, start

pytestmark = pytest.mark.e2e


def url_of(line: str) -> str:
    return str(json.loads(line)["url"])


@pytest.mark.parametrize(("numbers", "code"), [([signal.SIGTERM], 0), ([signal.SIGINT], 130), ([signal.SIGTERM] * 3, 0), ([signal.SIGINT] * 2, 130)])
def test_a_signal_ends_the_world_with_the_command_and_another_one_changes_nothing(tmp_path: Path, numbers: list[signal.Signals], code: int) -> None:
    with start(tmp_path, "serve", "package_prep", "--port", "0") as command:
        assert command.stdout is not None
        url = url_of(command.stdout.readline())
        assert httpx.get(url).json() == {"world": "package_prep", "tasks": 120}
        for number in numbers:
            command.send_signal(number)
        out, err = command.communicate(timeout=60)
    assert (command.returncode, out, err) == (code, "", "")
    with pytest.raises(httpx.TransportError):
        httpx.get(url)


def test_a_server_that_was_killed_is_said_in_two_lines_with_exit_code_4(tmp_path: Path) -> None:
    with start(tmp_path, "serve", "package_prep", "--port", "0") as command:
        assert command.stdout is not None
        os.kill(json.loads(command.stdout.readline())["pid"], signal.SIGKILL)
        _, err = command.communicate(timeout=60)
    assert (command.returncode, err) == (4, "error: serve: expected the server to run until it is stopped, got SIGKILL\nhint: start it again\n")


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
