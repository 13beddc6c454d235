"""The interpreter that runs the tests, compared with the laptop's lock by the command itself; it may have drifted, and then the command says so."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.e2e.commands import run
from tests.recipe.packages import install

pytestmark = pytest.mark.e2e


def test_the_exit_code_agrees_with_the_drift_that_is_shown(tmp_path: Path) -> None:
    ended = run(tmp_path, "lock", "check", "--json")
    found = ended.json
    assert found["stack"] == "cpu"
    assert found["clean"] is not bool(found["missing"] or found["different"] or found["altered"])
    assert ended.code == (0 if found["clean"] else 3)
    assert bool(ended.message) is not found["clean"]
    assert found["files"] > 1000
    assert "pytest" in found["extra"]


def test_what_is_printed_into_a_pipe_fits_80_columns(tmp_path: Path) -> None:
    ended = run(tmp_path, "lock", "check", "envs")
    lines = ended.out.splitlines()
    assert lines[0].startswith("stack         envs: ")
    assert max(map(len, lines)) <= 80
    assert ended.code == (0 if lines[-1] == "no drift" else 3)


def test_another_version_and_an_altered_file_of_a_package_end_with_exit_code_3(tmp_path: Path) -> None:
    install(tmp_path / "before", "rich", "0.0.1", {"rich_note.txt": b"as installed"})
    (tmp_path / "before/rich_note.txt").write_bytes(b"as altered!!")
    ended = run(tmp_path, "lock", "check", "--json", variables={"PYTHONPATH": str(tmp_path / "before")})
    assert ended.code == 3
    assert {"name": "rich", "installed": "0.0.1"}.items() <= next(each for each in ended.json["different"] if each["name"] == "rich").items()
    assert [each for each in ended.json["altered"] if each["name"] == "rich"] == [
        {"name": "rich", "file": "rich_note.txt", "problem": "other content"}
    ]
    assert ended.message[0].startswith(f"error: lockfiles/cpu.txt: expected {ended.json['locked']} packages as locked, got ")
    assert ended.message[1].startswith("hint: pip install torch==")
    assert ended.message[1].endswith("--force-reinstall")


def test_a_check_leaves_what_it_looks_at_as_it_was(tmp_path: Path) -> None:
    install(tmp_path / "before", "rich", "0.0.1", {"rich_note.txt": b"as installed"})
    before = digests(tmp_path)
    run(tmp_path, "lock", "check", variables={"PYTHONPATH": str(tmp_path / "before")})
    assert digests(tmp_path) == before


def test_an_unknown_stack_names_the_nearest_and_ends_with_exit_code_2(tmp_path: Path) -> None:
    ended = run(tmp_path, "lock", "check", "cpuu")
    assert (ended.code, ended.out) == (2, "")
    assert ended.message == [
        "error: lock check: expected one of the stacks cpu, dev, envs, verl-cpu, verl-cuda, got 'cpuu'",
        "hint: did you mean cpu?",
    ]


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
