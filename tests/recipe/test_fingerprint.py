"""The fingerprint says what a number can depend on beyond the frozen run."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym_cli.recipe.fingerprint import fingerprint, fingerprint_differences
from agentgym_cli.recipe.resolve import environment

CPUINFO = "processor\t: 0\nmodel name\t: Toy CPU @ 2 GHz\nflags\t\t: sse avx2\n\nprocessor\t: 1\nmodel name\t: Toy CPU @ 2 GHz\nflags\t\t: sse avx2\n"


def make(folder: Path, *, cpuinfo: str = CPUINFO, threads: int = 1, version: str | None = "1.0") -> str:
    path = folder / "cpuinfo"
    path.write_text(cpuinfo)
    return fingerprint(threads=threads, variables={"OMP_NUM_THREADS": "1"}, cpuinfo=path, installed=lambda name: version)


def test_it_holds_cpu_threads_interpreter_and_versions(tmp_path: Path) -> None:
    made = json.loads(make(tmp_path))
    assert made["cpu"]["model"] == "Toy CPU @ 2 GHz"
    assert made["cpu"]["flags"] == hashlib.sha256(b"avx2 sse").hexdigest()[:16]
    assert made["threads"] == 1
    assert made["variables"] == {"OMP_NUM_THREADS": "1"}
    assert made["packages"]["torch"] == "1.0"
    assert "duckdb" in made["packages"]
    assert "pytest" not in made["packages"]


def test_it_is_the_same_twice_and_names_what_differs(tmp_path: Path) -> None:
    first = make(tmp_path)
    assert make(tmp_path) == first
    assert make(tmp_path, cpuinfo=CPUINFO.replace("sse avx2", "avx2 sse")) == first
    assert fingerprint_differences(first, first) == ()
    assert fingerprint_differences(first, make(tmp_path, threads=2)) == ("threads: 1, then 2",)
    flags = fingerprint_differences(first, make(tmp_path, cpuinfo=CPUINFO.replace("avx2", "avx512")))
    assert [each.partition(":")[0] for each in flags] == ["cpu.flags"]
    gone = fingerprint_differences(first, make(tmp_path, version=None))
    assert 'packages.torch: "1.0", then null' in gone


def test_it_works_where_there_is_no_cpuinfo(tmp_path: Path) -> None:
    made = json.loads(fingerprint(threads=1, variables={}, cpuinfo=tmp_path / "none"))
    assert made["cpu"]["flags"] is None
    assert isinstance(made["cpu"]["count"], int)


def test_only_listed_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    assert environment()["OMP_NUM_THREADS"] == "3"
    assert "SECRET_TOKEN" not in environment()


@pytest.mark.slow
def test_taking_it_imports_no_torch() -> None:
    program = (
        "import sys; from agentgym_cli.recipe.fingerprint import fingerprint; fingerprint(threads=1, variables={}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0


def test_gpus_are_part_of_it_where_a_run_uses_some() -> None:
    without, used = (fingerprint(threads=1, variables={}, gpus=gpus) for gpus in ((), ("NVIDIA L4",)))
    assert "gpus" not in json.loads(without)
    assert json.loads(used)["gpus"] == ["NVIDIA L4"]
