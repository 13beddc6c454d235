"""What a cluster is sent: a frozen run on the shared disk, paths in full, and a program that is this one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.freeze import freeze
from agentgym_cli.recipe.frozen_file import read_frozen
from agentgym_cli.recipe.package import package_files
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.verbs.folders import FROZEN_FILE
from agentgym_cli.verbs.ray_job import carry_program, one_place, send, words_of
from agentgym_cli.verbs.request import Request

RECIPE = "textcraft_grpo.yaml"
REQUEST = Request(target=RECIPE, overrides=["profile=rehearsal", "seed=7"])


def test_a_recipe_is_frozen_here_and_its_run_is_where_both_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frozen, *words = words_of(replace(REQUEST, runs_dir=Path("shared"), allow_degraded=True))
    assert words == ["cluster.ray_address=auto", "--runs-dir", f"{tmp_path}/shared", "--store", f"{tmp_path}/results.duckdb", "--allow-degraded"]
    assert Path(frozen).parent == tmp_path / "shared" / ".submitted"
    assert read_frozen(Path(frozen)).digest == freeze(resolve(RECIPE, ["profile=rehearsal", "seed=7"])).digest


def test_a_run_goes_on_in_its_folder_with_what_is_given_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "a run"
    folder.mkdir(parents=True)
    freeze(resolve(RECIPE, REQUEST.overrides)).write(folder / FROZEN_FILE)
    words = words_of(Request(target="runs/a run", overrides=["train.keep_checkpoints=1"], resume=True))
    assert words == [str(folder), "train.keep_checkpoints=1", "cluster.ray_address=auto", "--resume", "--store", f"{tmp_path}/results.duckdb"]


def test_another_engine_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RecipeError, match="--ray-job: expected a profile of engine verl, got laptop, of engine local"):
        words_of(replace(REQUEST, overrides=["profile=laptop"]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("as_json", "address", "message"), [(True, None, "no --json beside it"), (False, "h:1", "no --ray-address beside it")])
def test_words_that_a_job_cannot_keep_are_refused(as_json: bool, address: str | None, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        one_place(as_json=as_json, ray_address=address)


def test_the_command_is_one_of_a_shell() -> None:
    class Server:
        def __init__(self) -> None:
            self.words: dict[str, Any] = {}

        def submit_job(self, **words: Any) -> str:
            self.words = words
            assert (Path(words["runtime_env"]["working_dir"]) / "agentgym_cli" / "__main__.py").is_file()
            return "job_1"

    server = Server()
    assert send(server, ["/shared/a run", "--resume"]) == "job_1"  # type: ignore[arg-type]
    assert server.words["entrypoint"] == "python -m agentgym_cli train '/shared/a run' --resume"


@pytest.mark.slow
def test_promise_07_the_program_that_is_carried_is_this_one(tmp_path: Path) -> None:
    carry_program(tmp_path)
    asked = "import json; from agentgym_cli.recipe.package import package_files; from agentgym_cli.recipe.data import find_data, PACKAGE; " + (
        "from importlib.metadata import version; "
        "print(json.dumps([str(PACKAGE), package_files(), str(find_data('textcraft_grpo.yaml')), version('agentgym-cli')]))"
    )
    said = subprocess.run(
        [sys.executable, "-c", asked], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=True
    )
    place, files, recipe, _ = json.loads(said.stdout)
    assert place == str(tmp_path / "agentgym_cli")
    assert files == package_files()
    assert recipe == str(tmp_path / "agentgym_cli" / "_data" / "recipes" / "textcraft_grpo.yaml")
