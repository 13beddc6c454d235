"""What a run meets besides kills: a first line that never came to be, a disk that fills up. It ends in words and is resumed to the same results."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from agentgym_cli.errors import ExitCode
from tests.drill.kills import killed, results
from tests.e2e.commands import TIMEOUT_SECONDS, command, environment, only_run, run

pytestmark = pytest.mark.drill

EVALUATION = ("eval", "recipes/package_prep.yaml", "evaluation.limit=12")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("reference")
    assert run(folder, *EVALUATION).code == 0
    return results(folder)


def resumed(folder: Path) -> dict[str, object]:
    ended = run(folder, "eval", str(only_run(folder)), "--resume")
    assert ended.code == 0, ended.err
    return results(folder)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_promise_10_a_run_killed_at_one_of_its_first_lines_can_be_resumed(reference, tmp_path, number):
    assert killed(tmp_path, EVALUATION, "inside a line", number, 0.0)
    assert resumed(tmp_path) == reference


def with_a_disk_of(folder: Path, size: int) -> tuple[int, str]:
    """Exit code and words of an evaluation none of whose files can grow beyond ``size`` bytes."""
    ended = subprocess.run(
        command(*EVALUATION),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    return ended.returncode, ended.stderr


def test_promise_10_a_run_that_fills_the_disk_says_so_and_is_resumed(reference, tmp_path):
    probed = run(tmp_path, *EVALUATION, "--runs-dir", "once").code
    assert probed == 0
    (whole,) = (tmp_path / "once").glob("*/journal/0001.jsonl")
    (tmp_path / "results.duckdb").unlink()
    code, err = with_a_disk_of(tmp_path, whole.stat().st_size - 15_000)
    assert code == ExitCode.STORE
    assert "0001.jsonl: cannot write: File too large" in err
    assert "--resume" in err
    assert resumed(tmp_path) == reference


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_served(tmp_path):
    (tmp_path / "runs").write_text("a file where the folder should be")
    ended = run(tmp_path, *EVALUATION)
    assert ended.code == ExitCode.STORE
    assert "expected to make the run's folder, got: " in ended.err
    assert "probe" not in ended.err
