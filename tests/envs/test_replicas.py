"""Several servers in one command: a line and a port each; they end together, whatever ends them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from agentgym_envs.serve import serve
from tests.envs.test_serve import COMMAND, ended

pytestmark = pytest.mark.e2e


@contextmanager
def replicas(count: int, *args: str) -> Iterator[tuple[subprocess.Popen[str], list[dict[str, object]]]]:
    """A command with that many replicas and what they announced; all ended with the block."""
    process = subprocess.Popen(
        [*COMMAND, "package_prep", "--replicas", str(count), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, [json.loads(process.stdout.readline()) for _ in range(count)]
    finally:
        process.terminate()
        process.communicate()


def free_ports(count: int) -> int:
    """The first of as many ports in a row that nobody listens on."""
    for first in range(42_000, 60_000, count):
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


def answers(url: object) -> bool:
    try:
        return bool(httpx.get(str(url)).json()["world"] == "package_prep")
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_replicas_listen_on_consecutive_ports_and_end_together_at_a_signal(number: signal.Signals, code: int) -> None:
    first = free_ports(3)
    with replicas(3, "--port", str(first)) as (process, lines):
        assert sorted(str(line["url"]) for line in lines) == [f"http://127.0.0.1:{first + place}" for place in range(3)]
        assert len({line["pid"] for line in lines}) == 3
        assert all(answers(line["url"]) for line in lines)
        process.send_signal(number)
        assert ended(process) == (code, "", "")
        assert not any(answers(line["url"]) for line in lines)


def test_with_port_0_each_takes_a_free_one_and_sessions_are_its_own() -> None:
    with replicas(2, "--port", "0") as (_, lines):
        made = [httpx.post(f"{line['url']}/create", json={}).json() for line in lines]
        assert made == [{"session": 0}] * 2


def test_when_one_ends_by_itself_the_others_are_ended_and_the_command_fails() -> None:
    with replicas(2, "--port", "0") as (process, lines):
        os.kill(int(str(lines[0]["pid"])), signal.SIGKILL)
        code, _, err = ended(process)
        assert code == 128 + signal.SIGKILL
        assert re.match("error: replica [12] ended by SIGKILL; the others are ended too\nhint: ", err)
        assert not answers(lines[1]["url"])


def test_when_the_command_is_killed_no_replica_stays() -> None:
    with replicas(2, "--port", "0") as (process, _):
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == "", "end of its output is the end of the replicas, which hold the other side"


def test_with_exit_with_parent_all_end_when_standard_input_does() -> None:
    with replicas(2, "--port", "0", "--exit-with-parent") as (process, lines):
        assert ended(process) == (0, "", "")
        assert not any(answers(line["url"]) for line in lines)


def test_a_port_in_use_ends_all_with_exit_code_4() -> None:
    first = free_ports(2)
    with socket.create_server(("127.0.0.1", first + 1)):
        process = subprocess.Popen(
            [*COMMAND, "package_prep", "--replicas", "2", "--port", str(first)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        code, _, err = ended(process)
    assert code == 4
    assert f"127.0.0.1:{first + 1}: expected an address to listen on" in err


def test_ports_beyond_the_last_are_refused_before_anything_starts(capfd: pytest.CaptureFixture[str]) -> None:
    assert serve(["package_prep", "--port", "65535", "--replicas", "2"]) == 2
    assert capfd.readouterr().err == "error: --replicas 2: expected ports up to 65535\nhint: choose a lower --port\n"
