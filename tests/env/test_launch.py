"""Servers in child processes start, say where they are, and are gone afterwards, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym_cli.env.dialect import load_dialect
from agentgym_cli.env.launch import fleet, launch, serving
from agentgym_cli.env.probe import probe
from agentgym_cli.errors import EnvError

ANNOUNCING = "import sys, os, json; print(json.dumps({'url': f'http://pid/{os.getpid()}'}), flush=True); sys.stdin.read()"


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-c", source]


def alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended is there until its parent has noticed."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_in(url: str) -> int:
    return int(url.rpartition("/")[2])


async def test_servers_run_inside_the_block_and_are_gone_after_it():
    async with serving([python(ANNOUNCING)] * 2, name="toy") as urls:
        pids = [pid_in(url) for url in urls]
        assert len(set(pids)) == 2
        assert all(map(alive, pids))
    assert not any(map(alive, pids))


@pytest.mark.slow
async def test_servers_are_gone_after_a_failure_and_after_a_cancel():
    pids = []

    async def fail(error: BaseException | None) -> None:
        async with serving([python(ANNOUNCING)], name="toy") as [url]:
            pids.append(pid_in(url))
            if error is not None:
                raise error
            await asyncio.Event().wait()

    with pytest.raises(ZeroDivisionError):
        await fail(ZeroDivisionError())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await fail(None)
    assert len(pids) == 2
    assert not any(map(alive, pids))


async def test_a_server_that_ends_is_an_error_with_its_last_words():
    with pytest.raises(EnvError) as caught:
        async with serving([python("import sys; print('no port\\x1b[2J left', file=sys.stderr); sys.exit(4)")], name="toy"):
            pass
    assert str(caught.value) == "toy: expected a line with its url, got an end with status 4\n  no port?[2J left"


@pytest.mark.parametrize("line", ["hello", "[]", "{}", '{"address": "x"}'])
async def test_a_server_that_says_something_else_is_an_error(line):
    with pytest.raises(EnvError) as caught:
        async with serving([python(f"print({line!r}, flush=True); input()")], name="toy"):
            pass
    assert str(caught.value).startswith("toy: expected a line with its url, got '")


async def test_a_server_that_says_nothing_runs_into_the_deadline():
    with pytest.raises(EnvError, match="toy: expected a line with its url, got nothing in time"):
        async with serving([python("input()")], name="toy", start_seconds=0.1):
            pass


async def test_one_of_several_that_fails_takes_the_others_with_it(tmp_path):
    note = tmp_path / "pid"
    noting = f"import os, pathlib; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); " + ANNOUNCING
    with pytest.raises(EnvError):
        async with serving([python(noting), python("raise SystemExit(1)")], name="toy"):
            pass
    assert not note.exists() or not alive(int(note.read_text()))


async def test_a_talkative_server_never_waits_for_us():
    talk = "import sys; sys.stderr.write('x' * 1_000_000 + '\\n'); print('y' * 1_000_000); "
    async with serving([python(ANNOUNCING.replace("sys.stdin.read()", talk + "print('done', file=sys.stderr); sys.stdin.read()"))], name="toy") as [
        url
    ]:
        assert alive(pid_in(url))


@pytest.mark.e2e
async def test_promise_09_the_shipped_world_is_served_and_passes_the_probe():
    async with launch("textcraft", ["--book", "laptop"], replicas=2, oracle=True) as urls:
        assert len(set(urls)) == 2
        for _ in range(3):
            report = await probe(urls, load_dialect("textcraft"))
            assert {check.name: check.detail for server in report.servers for check in server.checks if check.result not in ("pass", "n/a")} == {}
    report = await probe(urls[:1], load_dialect("textcraft"))
    assert report.servers[0].checks[0].detail.startswith("connect: ")


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="waits for the end of a process by its descriptor")
async def test_a_server_that_ended_says_how_and_starts_again_where_it_was():
    async with fleet("textcraft", ["--book", "laptop"], replicas=2) as servers:
        assert [servers.ended(place) for place in (0, 1)] == [None, None]
        killed = servers.pid(1)
        watched = os.pidfd_open(killed)
        os.kill(killed, signal.SIGKILL)
        assert select.select([watched], [], [], 20)[0]
        os.close(watched)
        assert [servers.ended(place) for place in (0, 1)] == [None, "by signal 9 (SIGKILL)"]
        await servers.restart(1)
        assert servers.ended(1) is None
        assert servers.pid(1) != killed
        report = await probe(servers.urls, load_dialect("textcraft"))
        assert report.ok


@pytest.mark.e2e
async def test_a_world_that_refuses_its_options_is_an_error_that_says_why():
    with pytest.raises(EnvError, match="server of world textcraft") as caught:
        async with launch("textcraft", ["--book", "nope"]):
            pass
    assert "invalid choice: 'nope'" in str(caught.value)


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="finds the server in /proc")
def test_servers_end_with_the_process_that_started_them():
    source = (
        "import asyncio, sys\nfrom agentgym_cli.env.launch import launch\n"
        "async def main():\n"
        "    async with launch('textcraft', ['--book', 'laptop']) as [url]:\n"
        "        print(url, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline().startswith("http://127.0.0.1:")
    [child] = [int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
    watched = os.pidfd_open(child)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert select.select([watched], [], [], 20)[0], "the server outlived its parent"
    os.close(watched)
