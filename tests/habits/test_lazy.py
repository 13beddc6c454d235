"""Help and version answer before anything heavy is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "ray", "verl", "vllm", "duckdb", "omegaconf", "httpx", "pydantic", "numpy", "pyarrow", "scipy", "starlette"}
PROBE = """
import sys
import {module}
try:
    {call}
finally:
    print("loaded:", *sorted(name for name in sys.modules if "." not in name), file=sys.stderr)
"""


def loaded_by(module: str, call: str, *arguments: str) -> set[str]:
    """Top-level modules in ``sys.modules`` of a fresh interpreter after ``call``, which must exit with 0."""
    program = PROBE.format(module=module, call=call)
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].removeprefix("loaded: ").split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["probe", "--help"],
        ["train", "--help"],
        ["eval", "--help"],
        ["capacity", "--help"],
        ["report", "--help"],
        ["view", "--help"],
        ["freeze", "--help"],
        ["store", "rebuild", "--help"],
    ],
    ids=" ".join,
)
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = loaded_by("agentgym_cli.cli.main", "agentgym_cli.cli.main.main()", *arguments)
    assert "typer" in loaded
    assert loaded & HEAVY == set()


def test_the_check_sees_a_heavy_module() -> None:
    assert loaded_by("pydantic", "pydantic.BaseModel") & HEAVY == {"pydantic"}
