"""No file of the house names the machine it was made on, a package index, or a host that a build or a run would depend on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).resolve().parents[2]
ROOMS = ("agentgym_cli", "envs", "recipes", "lockfiles", "tests", "benchmarks", "docs", ".ci")
BUILD_FILES = ("lockfiles/", ".ci/", "pyproject.toml", "noxfile.py")
HOSTS = {"arxiv.org", "github.com", "doi.org", "www.apache.org", "keepachangelog.com", "docs.ray.io", "json-schema.org"}
NOT_REAL = (".example", ".invalid", ".test", ".localhost", "example.org", "example.com", "example.net")
NOT_ROUTED = ("127.", "0.0.0.0", "10.", "192.0.2.")
URL = re.compile(r"https?://(\[[^\]]*\]|[^/\s:\"'`)>\\]*)", re.IGNORECASE)
INDEX = re.compile(r"\b(?:[a-z0-9-]+\.)*(?:pypi|pythonhosted|npmjs|debian|anaconda|pytorch)\.(?:org|com)\b|--(?:extra-)?index-url|--find-links")
MACHINE = re.compile(r"(?<![\w.)}\]])/(?:work|root|home|Users|opt)/")


def complaints(name: str, text: str) -> Iterator[str]:
    """What a file's text says that it must not; ``name`` is its path from the root of the house."""
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{name}:{number}"
        if name.startswith(BUILD_FILES) and URL.search(line):
            yield f"{where}: an address in a build file"
        yield from (f"{where}: host {host}" for host in URL.findall(line) if not harmless(host.lower()))
        if INDEX.search(line):
            yield f"{where}: a package index"
        if MACHINE.search(line):
            yield f"{where}: a path of one machine"


def harmless(host: str) -> bool:
    """Loopback, names without a dot, names and addresses reserved for examples, and the few sites that texts may cite."""
    return "." not in host or "{" in host or host.startswith(NOT_ROUTED) or host.endswith(NOT_REAL) or host in HOSTS


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every text file of the house."""
    paths = [path for path in HOUSE.iterdir() if path.suffix in {".md", ".toml", ".py"}]
    paths += [path for room in ROOMS for path in (HOUSE / room).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted(paths):
        content = path.read_bytes()
        if b"\0" not in content:
            yield path.relative_to(HOUSE).as_posix(), content.decode("utf-8")


def test_no_file_names_a_machine_or_an_index() -> None:
    here = Path(__file__).relative_to(HOUSE).as_posix()
    assert [complaint for name, text in texts() if name != here for complaint in complaints(name, text)] == []


def test_every_room_is_read() -> None:
    assert {"pyproject.toml", "noxfile.py", ".ci/run", "README.md", "agentgym_cli/errors.py"} <= {name for name, _ in texts()}


@pytest.mark.parametrize("name", ["lockfiles/cpu.txt", ".ci/run", "pyproject.toml", "noxfile.py"])
def test_a_build_file_has_no_address_at_all(name: str) -> None:
    assert list(complaints(name, "one\nsee https://github.com/a/b\n")) == [f"{name}:2: an address in a build file"]


@pytest.mark.parametrize(
    ("line", "claim"),
    [
        ("pip install --index-url x", "a package index"),
        ("curl http://mirror.corp.net/x", "host mirror.corp.net"),
        ("from files.pythonhosted.org", "a package index"),
        ("cd /opt/project", "a path of one machine"),
        ("open('/home/me/x')", "a path of one machine"),
    ],
)
def test_an_index_a_host_or_a_machine_path_is_seen(line: str, claim: str) -> None:
    assert list(complaints("docs/x.md", line)) == [f"docs/x.md:1: {claim}"]


@pytest.mark.parametrize(
    "line",
    [
        "http://127.0.0.1:36001/step",
        "http://[::1]:1/",
        "http://world/reset",
        "https://arxiv.org/abs/2509.08755",
        "https://api.example/v1",
        "f'http://{h}/'",
    ],
)
def test_loopback_examples_and_citations_pass(line: str) -> None:
    assert list(complaints("docs/x.md", line)) == []
