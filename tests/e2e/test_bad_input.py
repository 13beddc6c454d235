"""What people and machines get wrong: a two-line message, the documented exit code, and nothing lost."""

from __future__ import annotations

import fcntl
import json
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.e2e.commands import RECIPE, TIMEOUT_SECONDS, command, environment, only_run, run

pytestmark = pytest.mark.e2e

ORACLE = ("eval", RECIPE, "profile=laptop", "--policy", "oracle", "--limit", "4")


def test_a_missing_recipe_names_the_nearest(tmp_path):
    ended = run(tmp_path, "train", "recipes/textcraft_gpro.yaml")
    assert (ended.code, len(ended.message)) == (2, 2)
    assert "recipes/textcraft_gpro.yaml" in ended.message[0]
    assert "recipes/textcraft_grpo.yaml" in ended.message[1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: [unclosed", "mine.yaml:"),
        ("extends: textcraft_grpo.yaml\nsed: 1\n", "seed"),
        ("extends: textcraft_grpo.yaml\ntrain: {steps: many}\n", "train.steps"),
        ("extends: textcraft_grpo.yaml\ntrain: {lerning_rate: 1e-4}\n", "learning_rate"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_explained_at_its_place(tmp_path, text, expected):
    shipped = Path(__file__).parents[2] / RECIPE
    (tmp_path / "textcraft_grpo.yaml").write_text(shipped.read_text())
    (tmp_path / "mine.yaml").write_text(text)
    ended = run(tmp_path, "train", "mine.yaml", "profile=laptop")
    assert ended.code == 2
    assert ended.message[0].startswith("error: ")
    assert "mine.yaml" in ended.err
    assert expected in ended.err
    assert not (tmp_path / "runs").exists()


def test_a_port_in_use_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = run(tmp_path, "serve", "textcraft", "--port", port, timeout=60)
    assert (ended.code, len(ended.message)) == (4, 2)
    assert port in ended.message[0]


class _AnotherEnvironment(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps("This is environment BabyAI.").encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def another_environment() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _AnotherEnvironment) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_promise_09_a_failed_probe_ends_training_before_torch_is_loaded(tmp_path, another_environment):
    script = (
        "import sys\n"
        "from agentgym_cli.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n    print('loaded', [m for m in ('torch', 'transformers') if m in sys.modules])\n"
    )
    words = ("train", RECIPE, "profile=laptop", f"env.urls=[{another_environment}]")
    ended = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    assert ended.returncode == 4
    assert "BabyAI" in ended.stderr
    assert "identity" in ended.stderr
    assert ended.stdout.strip() == "loaded []"


def test_training_without_torch_names_the_extra(tmp_path):
    script = (
        "import importlib.metadata as metadata\n"
        "real = metadata.version\n"
        "def version(name):\n"
        "    if name == 'torch':\n        raise metadata.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "metadata.version = version\n"
        "from agentgym_cli.cli.main import main\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script, "train", RECIPE, "profile=laptop"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert ended.returncode == 3
    assert "agentgym-cli[local]" in ended.stderr


def test_a_held_store_costs_one_warning_and_the_report_but_no_result(tmp_path):
    hold = (
        "import duckdb, sys\n"
        "connection = duckdb.connect('results.duckdb')\n"
        "connection.execute('create table mine (x integer)')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    try:
        ended = run(tmp_path, *ORACLE)
    finally:
        holder.communicate("", timeout=30)
    assert ended.code == 7, ended.err
    assert sum("warning:" in line for line in ended.err.splitlines() if "results.duckdb" in line) == 1
    assert str(holder.pid) in ended.err
    (tmp_path / "results.duckdb").unlink()
    assert run(tmp_path, "store", "rebuild").code == 0
    parts = run(tmp_path, "report", only_run(tmp_path).name, "--json").json["parts"]
    assert [part["accounting"]["success"] for part in parts] == [4, 4]


def test_a_full_disk_stops_the_run_cleanly_and_a_resume_counts_nothing_twice(tmp_path):
    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))

    words = ("eval", RECIPE, "profile=laptop", "--policy", "oracle", "--limit", "40")
    full = subprocess.run(
        command(*words), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, preexec_fn=no_room
    )
    assert full.returncode == 7, full.stderr
    assert "journal" in full.stderr
    assert "Traceback" not in full.stderr
    resumed = run(tmp_path, "eval", str(only_run(tmp_path)), "--resume", "--json")
    assert resumed.code == 0, resumed.err
    counted = {part["split"]: (part["accounting"]["scheduled"], part["accounting"]["success"]) for part in resumed.json["parts"]}
    assert counted == {"unseen_tasks": (40, 40), "unseen_goals": (40, 40)}


def test_an_unknown_policy_and_an_unknown_run_are_refused(tmp_path):
    assert run(tmp_path, "eval", RECIPE, "profile=laptop", "--policy", "genius").code == 5
    assert run(tmp_path, "report", "nothing").code == 7


def test_a_resume_with_the_other_verb_or_another_policy_is_refused(tmp_path):
    assert run(tmp_path, *ORACLE).code == 0
    folder = only_run(tmp_path)
    before = sorted(path.name for path in (folder / "journal").iterdir())
    other_verb = run(tmp_path, "train", str(folder), "--resume")
    assert (other_verb.code, len(other_verb.message)) == (2, 2)
    assert "agentgym eval" in other_verb.message[1]
    other_policy = run(tmp_path, "eval", str(folder), "--resume", "--policy", "random")
    assert other_policy.code == 2
    assert sorted(path.name for path in (folder / "journal").iterdir()) == before


def test_two_processes_never_work_on_one_run(tmp_path):
    assert run(tmp_path, *ORACLE).code == 0
    folder = only_run(tmp_path)
    with (folder / ".held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = run(tmp_path, "eval", str(folder), "--resume")
    assert ended.code == 7
    assert "another process" in ended.err


def test_promise_09_a_run_that_does_not_fit_the_memory_is_refused_before_anything_starts(tmp_path):
    ended = run(tmp_path, "train", RECIPE, "profile=laptop", "engine.slots=100000000")
    assert ended.code == 2
    assert "memory" in ended.message[0]
    assert not (tmp_path / "runs").exists()


def test_promise_07_a_resume_after_a_file_changed_is_refused_and_the_file_named(tmp_path):
    shipped = Path(__file__).parents[2] / "recipes"
    shutil.copytree(shipped, tmp_path / "mine")
    words = ("eval", "mine/textcraft_grpo.yaml", "profile=laptop", "--policy", "oracle", "--limit", "4")
    assert run(tmp_path, *words).code == 0
    config = tmp_path / "mine" / "models" / "textcraft_laptop" / "config.json"
    config.write_text(config.read_text().replace("10000.0", "10001.0"))
    ended = run(tmp_path, "eval", str(only_run(tmp_path)), "--resume")
    assert ended.code == 2
    assert "model: config.json" in ended.err


def test_an_evaluation_whose_policy_file_is_gone_goes_on_with_the_policy_named_again(tmp_path):
    assert run(tmp_path, *ORACLE).code == 0
    folder = only_run(tmp_path)
    (folder / "policy.json").unlink()
    nameless = run(tmp_path, "eval", str(folder), "--resume")
    assert (nameless.code, "with policy.json in it, which says who acts, got none" in nameless.err) == (2, True)
    other = run(tmp_path, "eval", str(folder), "--resume", "--policy", "random")
    assert (other.code, (folder / "policy.json").exists()) == (2, False)
    again = run(tmp_path, "eval", str(folder), "--resume", "--policy", "oracle", "--json")
    assert [part["accounting"]["success"] for part in again.json["parts"]] == [4, 4]
    (folder / "policy.json").write_text("[]")
    broken = run(tmp_path, "eval", str(folder), "--resume")
    assert (broken.code, "policy.json: expected an object of kind, checkpoint and script" in broken.err) == (2, True)
