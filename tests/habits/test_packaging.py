"""The wheel carries what a run needs and nothing else, and works in an empty folder far from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

HOUSE = Path(__file__).resolve().parents[2]
RECIPE = "recipes/textcraft_grpo.yaml"


def run(*command: str | Path, cwd: Path, seconds: int = 300) -> str:
    """Standard output of a command that must succeed, run without the variables that could lead back to the checkout."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "AGENTGYM"))}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=variables, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, HOUSE, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and sees this one's dependencies, but not its editable install."""
    place = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place)
    python = place / "bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=place)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=place).strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """An empty folder."""
    return tmp_path


def files_below(folder: str) -> set[str]:
    """Files under a folder of the checkout, by their path from it, caches left out."""
    root = HOUSE / folder
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts}


def test_the_wheel_holds_both_packages_and_their_data_and_nothing_else(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    of_house = {name for name in held if not name.split("/")[0].endswith(".dist-info")}
    expected = {f"agentgym_cli/{name}" for name in files_below("agentgym_cli")} | files_below("envs")
    expected |= {f"agentgym_cli/_data/{room}/{name}" for room in ("recipes", "lockfiles") for name in files_below(room)}
    assert of_house == expected
    assert {f"agentgym_cli/_data/{RECIPE}", "agentgym_envs/__init__.py", "agentgym_cli/errors.py"} <= of_house
    assert any(name.startswith("agentgym_cli/_data/lockfiles/") for name in of_house)
    assert not [name for name in held if "tests/" in name or name.endswith((".pyc", ".ipynb"))]


def test_the_installed_packages_are_those_of_the_wheel(programs: Path, nowhere: Path) -> None:
    program = "import agentgym_cli.errors as toolkit, agentgym_envs as worlds; print(toolkit.__file__); print(worlds.__file__)"
    for place in run(programs / "python", "-c", program, cwd=nowhere).split():
        assert Path(place).is_relative_to(programs.parent)


def test_an_installed_agentgym_says_its_version(programs: Path, nowhere: Path) -> None:
    assert run(programs / "agentgym", "--version", cwd=nowhere) == "agentgym 0.1.0\n"


def test_an_installed_agentgym_evaluates_a_shipped_recipe_by_name_and_reports_it_again(programs: Path, nowhere: Path) -> None:
    printed = run(programs / "agentgym", "eval", RECIPE, "profile=laptop", "--policy", "oracle", "--limit", "2", "--json", cwd=nowhere)
    report: dict[str, Any] = json.loads(printed)
    counted = [{name: part["accounting"][name] for name in ("scheduled", "success", "missing")} for part in report["parts"]]
    assert counted == [{"scheduled": 2, "success": 2, "missing": 0}] * 2
    assert json.loads(run(programs / "agentgym", "report", "textcraft_grpo-laptop", "--json", cwd=nowhere)) == report


def test_promise_07_checkout_and_wheel_freeze_to_the_same_digest(programs: Path, nowhere: Path) -> None:
    command = ("freeze", RECIPE, "profile=laptop", "--json")
    from_wheel = json.loads(run(programs / "agentgym", *command, cwd=nowhere))
    from_checkout = json.loads(run(sys.executable, "-c", "from agentgym_cli.cli.main import main; main()", *command, cwd=HOUSE))
    assert from_wheel["digest"] == from_checkout["digest"]
