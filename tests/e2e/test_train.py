"""Whole training runs on the laptop profile, made tiny: determinism, kills, resumes, and what the report says of them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.e2e.commands import RECIPE, only_run, run, start, tiny, wait_for_line

pytestmark = [pytest.mark.e2e, pytest.mark.torch]


def results_digest(folder: Path) -> str:
    ended = run(folder, "store", "digest", only_run(folder).name, "--json")
    assert ended.code == 0, ended.err
    return str(ended.json["digest"])


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished, uninterrupted tiny run."""
    folder = tmp_path_factory.mktemp("reference")
    ended = run(folder, "train", RECIPE, *tiny(), "--json", variables={"PYTHONHASHSEED": "1"})
    assert ended.code == 0, ended.err
    (folder / "report.json").write_text(ended.out)
    return folder


def test_promise_07_the_same_frozen_run_gives_the_same_results_whatever_the_hash_seed(reference, tmp_path):
    again = run(tmp_path, "train", str(only_run(reference) / "frozen.json"), "--json", variables={"PYTHONHASHSEED": "2"})
    assert again.code == 0, again.err
    assert results_digest(tmp_path) == results_digest(reference)


def test_another_seed_gives_other_results(reference, tmp_path):
    assert run(tmp_path, "train", RECIPE, *tiny("seed=2"), "--json").code == 0
    assert results_digest(tmp_path) != results_digest(reference)


def test_every_phase_is_counted_against_its_schedule(reference):
    report = json.loads((reference / "report.json").read_text())
    counted = {(part["phase"], part["split"]): part["accounting"]["scheduled"] for part in report["parts"]}
    # 16 demonstrations; 3 steps of 2 groups of 4; 4 tasks of each split before, after step 2 and after
    assert counted == {
        ("warm_start", "train"): 16,
        ("eval_before", "unseen_tasks"): 4,
        ("eval_before", "unseen_goals"): 4,
        ("train", "train"): 24,
        ("eval_during", "unseen_tasks"): 4,
        ("eval_during", "unseen_goals"): 4,
        ("eval_after", "unseen_tasks"): 4,
        ("eval_after", "unseen_goals"): 4,
    }


def test_promise_05_trainer_and_sampler_agree_on_the_sampled_tokens(reference):
    records = [json.loads(line) for line in (only_run(reference) / "journal" / "0001.jsonl").read_text().splitlines()]
    differences = [r["value"] for r in records if r.get("name") == "logp_difference_max"]
    assert len(differences) == 3
    assert all(0.0 <= difference < 1e-4 for difference in differences)


@pytest.mark.parametrize("line", [("demonstrate",), ("warm start",), ("eval before",), ("train", "step 1/3"), ("eval during",), ("eval after",)])
def test_promise_10_a_killed_run_resumes_to_the_numbers_of_an_uninterrupted_one(reference, tmp_path, line):
    process = start(tmp_path, "train", RECIPE, *tiny())
    try:
        wait_for_line(process, *line)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    resumed = run(tmp_path, "train", str(only_run(tmp_path)), "--resume", "--json")
    assert resumed.code == 0, resumed.err
    assert results_digest(tmp_path) == results_digest(reference)


def test_an_interrupt_exits_130_and_names_the_command_that_resumes(reference, tmp_path):
    process = start(tmp_path, "train", RECIPE, *tiny())
    wait_for_line(process, "train", "step 1/3")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    folder = only_run(tmp_path)
    assert process.returncode == 130
    assert f"agentgym train runs/{folder.name} --resume" in err
    assert run(tmp_path, "report", folder.name, "--json").json["header"]["status"] == "interrupted"
    # How many checkpoints are kept changes no result, and may be said anew.
    assert run(tmp_path, "train", str(folder), "train.keep_checkpoints=1", "--resume", "--json").code == 0
    assert results_digest(tmp_path) == results_digest(reference)
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-000000", "step-000003"]


def test_a_resume_of_a_finished_run_says_that_nothing_is_left_serves_nothing_and_changes_nothing(reference, tmp_path):
    before = results_digest(reference)
    ended = run(reference, "train", str(only_run(reference)), "--resume", "--json")
    assert ended.code == 0, ended.err
    assert "nothing is left to do: all 3 steps and the evaluation behind them are recorded" in " ".join(ended.err.split())
    assert "servers" not in ended.err
    assert results_digest(reference) == before


def test_a_checkpoint_is_evaluated_by_the_same_loop(reference):
    ended = run(reference, "eval", RECIPE, *tiny(), "--checkpoint", str(only_run(reference)), "--json", "--runs-dir", "evals")
    assert ended.code == 0, ended.err
    evaluated = {p["split"]: p["accounting"]["success"] for p in ended.json["parts"]}
    trained = json.loads((reference / "report.json").read_text())
    after = {p["split"]: p["accounting"]["success"] for p in trained["parts"] if p["phase"] == "eval_after"}
    assert set(evaluated) == set(after)
