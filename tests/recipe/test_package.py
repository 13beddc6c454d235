"""The program's own files: the same names and digests in a checkout and in a wheel."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import agentgym_cli
from agentgym_cli.recipe.package import folder_files, package_files

ROOT = Path(agentgym_cli.__file__).parent.parent


def test_caches_hidden_files_and_shipped_data_are_left_out(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.txt", "b/d.json", "b/__pycache__/a.pyc", "old.pyc", ".hidden", ".git/a.py", "_data/recipes/r.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    every = folder_files(tmp_path, prefix="p")
    assert every == {f"p/{name}": hashlib.sha256(name.encode()).hexdigest() for name in ("a.py", "b/c.txt", "b/d.json")}
    assert set(folder_files(tmp_path, suffixes=(".py", ".txt"))) == {"a.py", "b/c.txt"}


def test_one_changed_byte_changes_one_digest(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("1")
    before = folder_files(tmp_path)
    (tmp_path / "b.py").write_text("2")
    after = folder_files(tmp_path)
    assert before["a.py"] == after["a.py"] == before["b.py"] != after["b.py"]


@pytest.mark.slow
def test_promise_07_checkout_and_wheel_have_equal_files(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=120, check=True)
    here = package_files()
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    program = "import json; from agentgym_cli.recipe.package import package_files; print(json.dumps(package_files()))"
    variables = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == here
    assert (tmp_path / "site" / "agentgym_cli" / "_data" / "recipes" / "textcraft_grpo.yaml").is_file()
