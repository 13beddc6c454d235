"""An evaluation of a model folder through a server that is started for it: the real world, real processes and HTTP, a stand-in for vLLM's server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentgym_cli.errors import ExitCode, PolicyError, RecipeError
from agentgym_cli.learn.verl import model_server
from agentgym_cli.learn.verl.launch import MARK_FILE, processes_of
from agentgym_cli.store.journal import read_journal
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, ProbeRecord, RunRecord, ScheduledRecord, SegmentRecord
from agentgym_cli.verbs import served_checks, served_model
from agentgym_cli.verbs.evaluate import evaluate_policy
from agentgym_cli.verbs.progress import Silent
from agentgym_cli.verbs.request import PolicyChoice, Request
from agentgym_cli.verbs.served import FOLDER
from agentgym_cli.verbs.served_checks import weights_digest
from agentgym_cli.verbs.served_model import find_served
from tests.episode.chats import BYTES
from tests.verbs.served_models import evaluation_of, model_folder, request_of

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system has no /proc")]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_server, "MODULE", "tests.learn.verl.stand_in_server")
    monkeypatch.setattr(model_server, "LOOK_SECONDS", 0.05)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'envs'}")
    monkeypatch.setattr(served_checks, "installed_version", lambda name: "0.27.1" if name == "vllm" else None)
    said = [*BYTES.encode("Thought: x\n\nAction: inventory").ids, BYTES.token_to_id("<|im_end|>")]
    monkeypatch.setenv("STAND_IN_SAYS", " ".join(map(str, said)))


def the_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def records(folder: Path, kind: type) -> list[Any]:
    return [record for record in read_journal(the_run(folder)) if isinstance(record, kind)]


def resumed(folder: Path) -> Request:
    return Request(target=str(the_run(folder)), overrides=[], resume=True, database=folder / "x.duckdb", policy=PolicyChoice())


def nothing_is_left(folder: Path) -> bool:
    return processes_of((the_run(folder) / FOLDER / MARK_FILE).read_text()) == []


def test_a_model_folder_is_evaluated_as_on_the_local_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_folder(tmp_path / "m")
    finished = evaluate_policy(request_of(model, tmp_path / "runs", "store.keep_tokens=all", "budgets.response_tokens=40"), Silent())
    assert finished.degraded is None and nothing_is_left(tmp_path)
    (run,) = records(tmp_path, RunRecord)
    assert run.policy == f"model {model}, weights {weights_digest(model)}"
    scheduled = [each.episode for each in records(tmp_path, ScheduledRecord)]
    outcomes = records(tmp_path, OutcomeRecord)
    assert len(scheduled) == 2 and sorted(each.episode for each in outcomes) == sorted(scheduled)
    attempts = records(tmp_path, AttemptRecord)
    # The rehearsal's evaluation has four turns, and to ask what is there crafts nothing.
    assert [(each.outcome, each.turns_count, each.policy_version) for each in attempts] == [("failure", 4, 0)] * 2
    assert {turn.action for each in attempts for turn in each.turns} == {"inventory"}
    (tokens,) = {each.tokens.logprobs[-1] for each in attempts}
    assert tokens == -0.5
    (probe,) = [each for each in records(tmp_path, ProbeRecord) if each.name == "vllm: server"]
    assert (probe.result, probe.detail) == ("pass", "vLLM 0.0.1")
    frozen = json.loads((the_run(tmp_path) / "frozen.json").read_text())
    assert frozen["observed"]["vllm (policy)"] == "vLLM 0.0.1"
    # Nothing is left to do: a resume starts no server. With other weights it is another policy.
    monkeypatch.setattr(model_server, "MODULE", "no_such_module")
    evaluate_policy(resumed(tmp_path), Silent())
    (model / "model.safetensors").write_bytes(b"others")
    with pytest.raises(RecipeError, match="changed since: model"):
        evaluate_policy(resumed(tmp_path), Silent())
    with pytest.raises(RecipeError, match="expected a run of agentgym eval with policy model"):
        evaluate_policy(replace(resumed(tmp_path), allow_drift=True), Silent())


def test_a_server_that_ends_in_the_middle_ends_the_run_which_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_folder(tmp_path / "m")
    monkeypatch.setenv("STAND_IN_LAST", "5")
    request = request_of(model, tmp_path / "runs", "budgets.response_tokens=40", "engine.slots=1")
    with pytest.raises(PolicyError, match="expected a server until the end, got exit status 1: RuntimeError: a card fell off") as raised:
        evaluate_policy(request, Silent())
    assert raised.value.exit_code is ExitCode.POLICY and nothing_is_left(tmp_path)
    assert raised.value.hint is not None and f"agentgym eval {the_run(tmp_path)} --resume" in raised.value.hint
    # The first episode has its four turns; the second one's second turn got no answer, and it left no attempt.
    first = [(each.episode, each.attempt, each.outcome) for each in records(tmp_path, AttemptRecord)]
    assert [attempt[1:] for attempt in first] == [(1, "failure")]
    monkeypatch.delenv("STAND_IN_LAST")
    evaluate_policy(resumed(tmp_path), Silent())
    assert [(each.segment, each.attempt) for each in records(tmp_path, AttemptRecord)] == [(1, 1), (2, 1)]
    assert len(records(tmp_path, OutcomeRecord)) == 2
    assert [each.status for each in records(tmp_path, SegmentRecord) if each.ended] == ["failed", "finished"]


def test_a_checkpoint_that_is_a_model_folder_has_the_step_of_its_name_and_needs_nothing_to_train(tmp_path: Path) -> None:
    model = model_folder(tmp_path / "export" / "step-000007")
    nothing = ("train=null", "tasks.train=null", "reward.token_cost=0")
    evaluate_policy(request_of(Path("Qwen/Qwen2.5-7B-Instruct"), tmp_path / "runs", *nothing, checkpoint=model), Silent())
    (run,) = records(tmp_path, RunRecord)
    assert run.policy == f"checkpoint of step 7, weights {weights_digest(model)}"
    assert {each.step for each in records(tmp_path, ScheduledRecord)} == {7}
    assert {each.policy_version for each in records(tmp_path, AttemptRecord)} == {7}
    evaluate_policy(resumed(tmp_path), Silent())


def test_the_last_checkpoint_of_a_run_on_verl_is_merged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = evaluation_of(model_folder(tmp_path / "m"), tmp_path / "trained")
    for step in (2, 3):
        place = trained.folder / "verl" / "checkpoints" / f"global_step_{step}"
        (place / "actor").mkdir(parents=True)
        (place / "agentgym.json").write_text(json.dumps({"digest": trained.frozen.digest, "step": step, "ranks": 1}))
    asked = []

    def export(run: str, *, step: int | None, folder: Path | None, database: Path, runs_dir: Path) -> None:
        assert folder is not None
        asked.append((Path(run), step, database, runs_dir))
        model_folder(folder)

    monkeypatch.setattr(served_model, "load_exporter", lambda: export)
    hub = Path("Qwen/Qwen2.5-7B-Instruct")
    prepared = evaluation_of(hub, tmp_path / "runs")
    for _ in range(2):
        model, label = find_served(prepared, trained.folder, Silent())
        assert (model.step, label) == (3, f"checkpoint of step 3, weights {weights_digest(trained.folder / 'export' / 'step-000003')}")
    assert asked == [(trained.folder, 3, tmp_path / "x.duckdb", trained.folder.parent)]


def test_what_can_act_is_said_where_nothing_does(tmp_path: Path) -> None:
    hub = Path("Qwen/Qwen2.5-7B-Instruct")
    with pytest.raises(PolicyError, match=r"expected the files of Qwen/Qwen2\.5-7B-Instruct on this machine, got none"):
        evaluate_policy(request_of(hub, tmp_path / "runs"), Silent())
    with pytest.raises(PolicyError, match="expected the folder of a model, or of a run on engine verl, got none of them"):
        evaluate_policy(request_of(hub, tmp_path / "runs", checkpoint=tmp_path), Silent())
    assert not (tmp_path / "runs").exists()


def test_the_local_engine_names_the_engine_of_a_run_on_verl(tmp_path: Path) -> None:
    trained = evaluation_of(model_folder(tmp_path / "m"), tmp_path / "trained")
    choice = PolicyChoice(checkpoint=trained.folder)
    request = Request(target="textcraft_grpo.yaml", overrides=["profile=laptop"], runs_dir=tmp_path / "runs", policy=choice)
    with pytest.raises(PolicyError, match="expected a checkpoint of engine local, got a run on engine verl"):
        evaluate_policy(request, Silent())


def test_the_folder_of_a_run_is_answered_with_how_to_evaluate_it(tmp_path: Path) -> None:
    trained = evaluation_of(model_folder(tmp_path / "m"), tmp_path / "trained")
    with pytest.raises(RecipeError, match="expected a recipe, got the folder of a run") as raised:
        evaluate_policy(Request(target=str(trained.folder), overrides=[], policy=PolicyChoice()), Silent())
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(f"agentgym eval {trained.frozen.recipe} profile=rehearsal --checkpoint {trained.folder} evaluates")
