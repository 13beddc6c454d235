"""A server's memory is that of the process which listens where its URL points, and of no other."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym_cli.env.memory import find_server

HERE = f"process {os.getpid()} ("


@pytest.mark.parametrize(("family", "address", "host"), [(socket.AF_INET, "127.0.0.1", "localhost"), (socket.AF_INET6, "::1", "[::1]")])
def test_the_process_that_listens_is_found_by_its_port(family, address, host):
    with socket.create_server((address, 0), family=family) as server:
        found = find_server(f"http://{host}:{server.getsockname()[1]}/under/a/path")
        assert found is not None
        assert found.pids == (os.getpid(),)
        assert found.name.startswith(HERE)


def test_its_memory_is_resident_and_that_of_its_children_counts():
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = find_server(f"http://127.0.0.1:{server.getsockname()[1]}")
        assert found is not None
        alone = found.resident_bytes()
        status = Path("/proc/self/status").read_text(encoding="ascii")
        assert alone == pytest.approx(1024 * int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]), rel=0.2)
        child = subprocess.Popen(
            [sys.executable, "-c", "held = bytearray(b'x' * 2**25); print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with child:
            child.stdout.readline()
            assert found.resident_bytes() - alone >= 2**25
            child.communicate(b"\n")


@pytest.mark.parametrize("url", ["http://192.0.2.7:80", "http://example.org", "http://host", "http://10.0.0.1:22"])
def test_a_server_on_another_machine_has_no_memory_here(url):
    assert find_server(url) is None


def test_a_port_where_nobody_listens_has_no_process():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert find_server(f"http://127.0.0.1:{port}") is None


def test_a_process_that_has_ended_has_no_memory():
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        found = find_server(f"http://127.0.0.1:{int(child.stdout.readline())}")
        assert found is not None and found.pids == (child.pid,)
        child.communicate(b"\n")
    assert found.resident_bytes() is None
