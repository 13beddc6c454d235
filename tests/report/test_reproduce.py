"""The command by which a run can be done again plays the policy that acted, and says what no record names."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from agentgym_cli.store.db import Connection
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import CheckpointRecord
from tests.report.runs import evaluation, report_of
from tests.store.builders import make_run, make_segment, write_journal

_WEIGHTS, _SCRIPT = "c" * 64, "5" * 64
_ENDPOINT = '{"config":{"policy":{"endpoint":{"url":"http://127.0.0.1:8000/v1","model":"a model","key_variable":"MODEL_KEY"}}}}'


def pointers_of(store: Connection, folder: Path, policy: str, frozen: str = "{}", drift: tuple[str, ...] = ()) -> dict[str, str]:
    records = [make_run(verb="eval", policy=policy, frozen=frozen), make_segment(drift=drift), *evaluation(["success"])]
    return {pointer.what: pointer.how for pointer in report_of(store, folder / "r1", records).reproduce}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["oracle", "random"])
def test_a_baseline_is_named(store: Connection, tmp_path: Path, policy: str) -> None:
    assert pointers_of(store, tmp_path, policy)["run it again"] == f"agentgym eval runs/r1/frozen.json --policy {policy}"


@pytest.mark.slow
def test_a_script_is_named_by_its_content_and_where_its_path_is(store: Connection, tmp_path: Path) -> None:
    pointers = pointers_of(store, tmp_path, f"scripted, script {_SCRIPT}")
    assert pointers["run it again"] == "agentgym eval runs/r1/frozen.json --policy scripted --script SCRIPT"
    assert pointers["who acts"] == f"SCRIPT is the file with SHA-256 {_SCRIPT}; runs/r1/policy.json has its path"


@pytest.mark.slow
def test_a_checkpoint_of_a_run_in_the_store_is_named_by_its_folder(store: Connection, tmp_path: Path) -> None:
    kept = CheckpointRecord(run="taught", segment=1, step=6, path="checkpoints/step-000006", digest=_WEIGHTS)
    other = CheckpointRecord(run="taught", segment=1, step=3, path="checkpoints/step-000003", digest="e" * 64)
    load_into(store, write_journal(tmp_path / "taught", [make_run("taught"), make_segment(run="taught"), other, kept]))
    pointers = pointers_of(store, tmp_path, f"checkpoint of step 6, weights {_WEIGHTS}")
    assert pointers["run it again"] == "agentgym eval runs/r1/frozen.json --checkpoint runs/taught/checkpoints/step-000006"
    assert pointers["who acts"] == f"the weights of step 6 with SHA-256 {_WEIGHTS}, which taught wrote"


@pytest.mark.slow
def test_a_checkpoint_that_no_run_of_the_store_wrote_is_said_to_be_unknown(store: Connection, tmp_path: Path) -> None:
    pointers = pointers_of(store, tmp_path, f"checkpoint of step 6, weights {_WEIGHTS}")
    assert pointers["run it again"] == "agentgym eval runs/r1/frozen.json --checkpoint CHECKPOINT"
    assert "which no run of this store wrote; runs/r1/policy.json has its path" in pointers["who acts"]


@pytest.mark.slow
def test_an_endpoint_is_named_with_its_model_and_its_keys_variable(store: Connection, tmp_path: Path) -> None:
    pointers = pointers_of(store, tmp_path, "endpoint, chat: a model, 4,096 tokens", _ENDPOINT)
    words = ["agentgym", "eval", "runs/r1/frozen.json", "--endpoint", "http://127.0.0.1:8000/v1", "--model", "a model"]
    assert shlex.split(pointers["run it again"]) == words
    assert "its key is read from MODEL_KEY" in pointers["who acts"]


@pytest.mark.slow
def test_a_run_with_drift_says_what_its_command_needs(store: Connection, tmp_path: Path) -> None:
    assert "--allow-drift" in pointers_of(store, tmp_path, "oracle", drift=("another prompt",))["drift"]
