"""A world as a process: its first line, its refusals, its end, and what the toolkit's launcher and probe make of it."""

from __future__ import annotations

import csv
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import launch
from agentgym_cli.env.probe import probe
from agentgym_envs.serve import serve

COMMAND = [sys.executable, "-m", "agentgym_envs"]
SECONDS = 60


@contextmanager
def running(*args: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, object]]]:
    """A server process and what it announced; ended with the block."""
    process = subprocess.Popen(
        [*COMMAND, "textcraft", "--port", "0", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code and what was still said, once the process has ended by itself."""
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


@pytest.mark.e2e
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_server_says_where_it_listens_answers_and_ends_cleanly_at_a_signal(number: signal.Signals, code: int) -> None:
    with running("--book", "laptop", "--oracle") as (process, announced), httpx.Client(base_url=str(announced["url"])) as client:
        assert announced == {"url": announced["url"], "world": "textcraft", "tasks": 1920, "pid": process.pid}
        assert client.get("/").json() == "This is environment TextCraft."
        assert client.post("/create", json={}).json()["observation"].endswith("Goal: craft flax cord.")
        assert client.get("/oracle", params={"id": 0}).json()["actions"][0] == "get 3 flax"
        process.send_signal(number)
        assert ended(process) == (code, "", "")


@pytest.mark.e2e
def test_with_exit_with_parent_it_ends_when_standard_input_does() -> None:
    with running("--exit-with-parent") as (process, announced):
        assert announced["tasks"] == 544
        assert ended(process) == (0, "", "")


@pytest.mark.e2e
@pytest.mark.timeout(60)
def test_a_server_whose_parent_is_killed_does_not_linger() -> None:
    program = f"import subprocess, sys\nsubprocess.run({[*COMMAND, 'textcraft', '--port', '0', '--exit-with-parent']!r}, stdin=subprocess.PIPE)"
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert json.loads(parent.stdout.readline())["pid"] != parent.pid
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == "", "end of its output is the end of the server, which holds the other side"
    parent.stdout.close()


HANGING = """
import sys, threading
from agentgym_envs.offers import WORLDS, Offered
from agentgym_envs.serve import serve
from tests.envs.servers import SlowWorld

class Never(threading.Event):
    def wait(self, timeout=None):
        return super().wait(3600)

WORLDS["slow"] = Offered(help="", needs="", ready=lambda: None, add_options=lambda _: None, build=lambda _: SlowWorld(gate=Never()))
sys.exit(serve(["slow", "--port", "0", "--call-seconds", "0.2"]))
"""


@pytest.mark.e2e
@pytest.mark.timeout(60)
def test_a_call_that_never_ends_holds_up_neither_its_client_nor_the_end() -> None:
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, "-c", HANGING], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with httpx.Client(base_url=json.loads(process.stdout.readline())["url"]) as client:
            client.post("/create", json={})
            said = client.post("/step", json={"id": 0, "action": "hang"}).json()
        assert said == {"error": "The session 0 is broken: a call took longer than 0.2 seconds. Create another."}
        process.send_signal(signal.SIGTERM)
        code, out, err = ended(process)
        assert (code, out) == (0, "")
        assert [json.loads(line)["event"] for line in err.splitlines()] == ["call given up"]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.e2e
def test_with_compat_task_numbers_wrap_over_the_wire() -> None:
    with running("--compat") as (_, announced), httpx.Client(base_url=str(announced["url"])) as client:
        first = client.post("/create", json={}).json()
        assert client.post("/reset", json={"id": 0, "data_idx": 544}).json() == first
        assert client.post("/reset", json={"id": 0, "data_idx": -544}).json() == first


def test_a_port_in_use_is_said_in_two_lines_with_exit_code_4(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert serve(["textcraft", "--port", str(port)]) == 4
    out, err = capfd.readouterr()
    assert out == ""
    assert err == (
        f"error: 127.0.0.1:{port}: expected an address to listen on, got Address already in use\n"
        "hint: stop what listens there, or choose another with --port (0 takes a free one)\n"
    )


def test_a_host_that_is_not_this_machine_is_refused_with_exit_code_4(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_TOKEN", "secret")
    assert serve(["textcraft", "--host", "192.0.2.1", "--port", "0", "--token-variable", "WORLD_TOKEN"]) == 4
    assert capfd.readouterr().err.startswith("error: 192.0.2.1:0: expected an address to listen on, got ")


def test_a_recipe_folder_that_cannot_be_read_is_said_in_two_lines_with_exit_code_2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_text("{}")
    assert serve(["textcraft", "--port", "0", "--recipes", str(tmp_path)]) == 2
    assert capfd.readouterr().err == (
        "error: textcraft: odd.json: expected a recipe in the game's format, got KeyError: 'type'\nhint: agentgym serve textcraft --help\n"
    )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "expected a WORLD, one of babyai, package_prep, "),
        (["chess"], "invalid choice: 'chess'"),
        (["textcraft", "--port", "65536"], "expected 0 to 65535, got 65536"),
        (["textcraft", "--max-sessions", "0"], "expected at least 1, got 0"),
        (["textcraft", "--idle-seconds", "0"], "expected more than 0, got 0"),
        (["textcraft", "--idle-seconds", "nan"], "expected more than 0, got nan"),
        (["textcraft", "--book", "huge"], "invalid choice: 'huge'"),
        (["textcraft", "--book", "big", "--recipes", "x"], "not allowed with argument"),
        (["textcraft", "--boo", "big"], "unrecognized arguments: --boo big"),
    ],
)
def test_wrong_options_are_refused_with_exit_code_2(args: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        serve(args)
    assert exit_.value.code == 2
    assert said in capfd.readouterr().err


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("world", "args", "manifest"),
    [
        ("textcraft", ("--book", "big"), "textcraft_big"),
        ("textcraft", ("--book", "laptop"), "textcraft_laptop"),
        ("package_prep", (), "package_prep"),
    ],
)
async def test_two_replicas_pass_every_check_of_the_full_probe(world: str, args: tuple[str, ...], manifest: str) -> None:
    with (Path(__file__).parents[2] / f"recipes/tasks/{manifest}.csv").open(encoding="utf-8") as lines:
        tasks = [(int(row["index"]), row["digest"]) for row in csv.DictReader(lines)]
    async with launch(world, args, oracle=True, replicas=2) as urls:
        report = await probe(urls, load_dialect(world), tasks=tasks, size=len(tasks), level="full")
    for server in report.servers:
        assert {check.name: check.result for check in server.checks if check.result != "pass"} == {}
