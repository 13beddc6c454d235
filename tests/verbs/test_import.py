"""Other programs' episodes become a run that says what is not known of it, all of them or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.errors import RecipeError, StoreError
from agentgym_cli.report.build import build_report
from agentgym_cli.store.db import rows_of
from agentgym_cli.store.opening import open_for_reading
from agentgym_cli.store.rebuild import rebuild
from agentgym_cli.verbs.store import Imported, check, import_run

pytestmark = pytest.mark.slow


def said(*texts: str) -> list[dict[str, object]]:
    """AgentGym-RL's messages, the user first."""
    return [{"role": "assistant" if place % 2 else "user", "content": text} for place, text in enumerate(texts)]


def row(number: int = 3, reward: float = 1, *texts: str) -> dict[str, object]:
    return {"item_id": number, "conversations": said("rules", "OK", *(texts or ("Goal", "Action: get 1 log", "Got 1 log"))), "reward": reward}


def logs(folder: Path, **files: list[dict[str, object]]) -> Path:
    """``step1_0=[...]`` is step1/0.json."""
    for name, rows in files.items():
        path = folder / name.rpartition("_")[0] / f"{name.rpartition('_')[2]}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return folder


def bring(tmp_path: Path, path: Path, form: str = "agentgym-rl", run: str = "rl", env: str | None = "textcraft") -> Imported:
    return import_run(path, form=form, run=run, database=tmp_path / "x.duckdb", runs_dir=tmp_path / "runs", env=env)  # type: ignore[arg-type]


def test_agentgym_rl_logs_become_episodes_by_step_with_outcomes_by_the_dialects_rule(tmp_path: Path) -> None:
    path = logs(tmp_path / "logs", step1_0=[row(3, 1), row(3, 0)], step2_0=[row(4, 0.5)], step2_1=[row(3, 1)], steptest_batch_0_0=[row(9, 1)])
    assert bring(tmp_path, path).episodes == 5
    with open_for_reading(tmp_path / "x.duckdb") as store:
        assert rows_of(store, "select episode, outcome, reward, horizon, seconds, stop from episodes_final order by episode") == [
            ("eval/imported/0/textcraft_9/0", "success", 1.0, None, None, None),
            ("train/imported/1/textcraft_3/0", "success", 1.0, None, None, None),
            ("train/imported/1/textcraft_3/1", "failure", 0.0, None, None, None),
            ("train/imported/2/textcraft_3/0", "success", 1.0, None, None, None),
            ("train/imported/2/textcraft_4/0", "failure", 0.5, None, None, None),
        ]
        assert rows_of(store, "select distinct turn, observation, text, action, valid from turns") == [(1, "Goal", "Action: get 1 log", None, None)]
        assert rows_of(store, "select distinct final_observation, seed from attempts") == [("Got 1 log", None)]
        assert rows_of(store, "select verb, env, imported, digest, seed, frozen, policy, length(source_digest) from runs") == [
            ("train", "textcraft", "agentgym-rl", None, None, None, None, 64)
        ]


def test_agenttraj_conversations_become_episodes_whose_outcome_is_not_known(tmp_path: Path) -> None:
    spoken = [
        {"from": "human", "value": "rules", "loss": None},
        {"from": "gpt", "value": "OK", "loss": False},
        {"from": "human", "value": "Goal", "loss": None},
        {"from": "gpt", "value": "Action: inventory", "loss": True},
    ]
    path = tmp_path / "textcraft_train.json"
    path.write_text(json.dumps([{"item_id": "textcraft_31", "conversations": spoken}] * 2), encoding="utf-8")
    assert bring(tmp_path, path, "agenttraj", env=None).episodes == 2
    with open_for_reading(tmp_path / "x.duckdb") as store:
        assert rows_of(store, "select task, sample, outcome, reward from episodes_final order by sample") == [
            ("textcraft_31", 0, "missing", None),
            ("textcraft_31", 1, "missing", None),
        ]
        assert rows_of(store, "select observation, text from turns") == [("Goal", "Action: inventory")] * 2
        assert rows_of(store, "select outcome from attempts") == [(None,), (None,)]


def test_a_demonstration_in_which_the_policy_says_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "textcraft_train.json"
    path.write_text(json.dumps([{"item_id": "textcraft_1", "conversations": [{"from": "human", "value": "Goal"}]}]), encoding="utf-8")
    with pytest.raises(RecipeError, match=r"expected a turn of the policy, got .none"):
        bring(tmp_path, path, "agenttraj", env=None)


def test_reports_of_an_imported_run_say_so_and_what_is_not_known(tmp_path: Path) -> None:
    bring(tmp_path, logs(tmp_path / "logs", step1_0=[row()]))
    header = build_report(tmp_path / "x.duckdb", "rl").header
    assert (header.label, header.profile, header.engine, header.seed, header.promise) == ("imported", "unknown", "unknown", None, "none")
    assert "the schedule is not known" in header.profile_reason
    assert "infra errors cannot be told from failures" in header.profile_reason


def test_promise_12_a_rebuilt_store_has_the_imported_run_and_agrees_with_its_journal(tmp_path: Path) -> None:
    bring(tmp_path, logs(tmp_path / "logs", step1_0=[row(), row(5, 0)]))
    (digest,) = (found.digest for found in check(tmp_path / "x.duckdb", tmp_path / "runs"))
    rebuild(tmp_path / "runs", tmp_path / "x.duckdb")
    (found,) = check(tmp_path / "x.duckdb", tmp_path / "runs")
    assert (found.faults, found.digest, found.scheduled) == ((), digest, 2)


GOOD = json.dumps([row()], indent=1)
HOSTILE = {
    "broken JSON": (GOOD[:-3], r"0\.json:\d+: expected , or \] after a row|expected JSON"),
    "no list": ('{"a": 1}', r"0\.json:1: expected a JSON list"),
    "no object": ("[1]", r"0\.json:1: expected an object, got 1"),
    "an unknown field": ('[\n{"item_id": 1, "conversations": [], "reward": 1, "more": 2}]', r"0\.json:2: .* got .*the unknown more"),
    "a missing field": ('[\n\n{"item_id": 1, "conversations": []}]', r"0\.json:3: expected a field reward, got"),
    "a reward that is no number": (GOOD.replace('"reward": 1', '"reward": "1"'), r"0\.json:2: expected reward to be a number below 1e\+300"),
    "a reward without end": (GOOD.replace('"reward": 1', '"reward": 1e999'), r"expected reward to be a number below 1e\+300"),
    "a reward of 401 digits": (GOOD.replace('"reward": 1', f'"reward": 1{"0" * 400}'), r"expected reward to be a number below 1e\+300"),
    "a key twice": (GOOD.replace('"reward": 1', '"reward": 1, "reward": 0'), r"each key once, got .* \(a key twice\)"),
    "half a character": (GOOD.replace("Action: get", r"\ud800 get"), r"whole texts, .* \(a lone surrogate\)"),
    "a comma behind the last row": (GOOD[:-2] + ",\n]", "expected another row after the comma"),
    "not a number": (GOOD.replace('"reward": 1', '"reward": NaN'), "expected JSON"),
    "a task that is no number": (GOOD.replace('"item_id": 3', '"item_id": "../../3"'), "expected item_id to be a whole number from 0"),
    "a task below 0": (GOOD.replace('"item_id": 3', '"item_id": -1'), "expected item_id to be a whole number from 0"),
    "no messages": (GOOD.replace('"content"', '"text"'), "expected messages of role and content"),
    "another speaker": (GOOD.replace('"assistant"', '"critic"'), "expected who speaks to be assistant, user or system"),
    "many levels": ("[" + '{"a":' * 100_000, "expected JSON of finite numbers, whole texts, few levels"),
    "nothing": ("[]", "expected episodes in the files, got none"),
    "text behind the list": (GOOD + "[]", "expected nothing behind the list"),
}


@pytest.mark.parametrize(("text", "claim"), HOSTILE.values(), ids=HOSTILE.keys())
def test_promise_11_a_hostile_file_is_refused_with_its_line_and_leaves_nothing(tmp_path: Path, text: str, claim: str) -> None:
    path = logs(tmp_path / "logs", step1_0=[row()])
    (path / "step2").mkdir()
    (path / "step2" / "0.json").write_text(text, encoding="utf-8")
    if text == "[]":
        (path / "step1" / "0.json").write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=claim):
        bring(tmp_path, path)
    assert not (tmp_path / "x.duckdb").exists()
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "", ".hidden", "a/b", "a\x1b[2J", "x" * 101])
def test_promise_11_a_runs_name_cannot_leave_the_runs_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecipeError, match="--run: expected letters, digits"):
        bring(tmp_path, logs(tmp_path / "logs", step1_0=[row()]), run=name)


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    path = logs(tmp_path / "logs", step1_0=[row()])
    bring(tmp_path, path)
    with pytest.raises(RecipeError, match="expected no run of that name"):
        bring(tmp_path, path)
    (tmp_path / "runs" / "rl").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="expected no run 'rl', got one"):
        bring(tmp_path, path)


def test_logs_whose_environment_is_not_said_and_folders_without_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="--env: expected the dialect of the logs"):
        bring(tmp_path, logs(tmp_path / "logs", step1_0=[row()]), env=None)
    with pytest.raises(RecipeError, match=r"expected step1/0\.json"):
        bring(tmp_path, tmp_path)
