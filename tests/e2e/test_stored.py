"""Whole runs that learn from stored data: what is counted, that a resume ends alike, and a chain of runs by export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.model import build_model
from agentgym_cli.learn.update import action_scores
from tests.e2e.commands import Ended, only_run, run
from tests.e2e.test_algorithms import results_digest, taken_back
from tests.learn.models import trajectory

pytestmark = [pytest.mark.e2e, pytest.mark.torch]

SMALL = ("train.steps=4", "train.checkpoint_every=1", "train.tasks_per_step=4", "evaluation.limit=2", "evaluation.horizon=4", "engine.slots=16")
WARM = "warm_start={steps: 2, demonstrations: 8, demonstrations_per_step: 4, learning_rate: 1e-3, max_turns: 8}"
LORA = "train.lora={rank: 2, alpha: 4, targets: [q_proj, down_proj]}"
SFT = "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 8}]}"
DPO = "train.algorithm={kind: dpo, pairs: [{kind: file, path: pairs.jsonl}]}"
EVOL = (
    "train.algorithm={kind: agentevol, demonstrations: [{kind: oracle, count: 8}], iteration_steps: 2, explored_tasks: 3, samples_per_task: 2, "
    "keep_at_least: 0}"
)
ALGORITHMS = {"sft": (SFT, LORA), "dpo": (DPO, WARM), "agentevol": (EVOL, "warm_start=null", "horizon.turns=8")}
EVALUATED = {(phase, split): 2 for phase in ("eval_before", "eval_after") for split in ("unseen_tasks", "unseen_goals")}
PLAYED: dict[str, dict[tuple[str, str], int]] = {
    "sft": {("demonstrate", "train"): 8},
    "dpo": {("warm_start", "train"): 8},
    "agentevol": {("demonstrate", "train"): 8, ("explore", "train"): 6},
}


def trained(folder: Path, kind: str, *words: str) -> Ended:
    """A small run; pairs are of tasks of the training split."""

    def side(action: str) -> list[dict[str, str]]:
        return [{"role": "user", "content": "Goal: craft flax cord."}, {"role": "assistant", "content": action}]

    lines = [{"task": f"textcraft_{task}", "chosen": side(f"get {task} flax"), "rejected": side("inventory")} for task in (0, 2, 3)]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ended = run(folder, "train", f"recipes/textcraft_{kind}.yaml", *SMALL, *words, "--json")
    assert ended.code == 0, ended.err
    return ended


def counted(report: Any) -> dict[tuple[str, str], list[int]]:
    """Scheduled episodes by phase and split, in the order of steps."""
    found: dict[tuple[str, str], list[int]] = {}
    for part in report["parts"]:
        found.setdefault((part["phase"], part["split"]), []).append(part["accounting"]["scheduled"])
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "steps"), [("sft", (1, 2)), ("dpo", (2,)), ("agentevol", (1, 2))])
def test_promise_10_a_run_that_learns_from_stored_data_resumes_to_the_same_bits(tmp_path: Path, kind: str, steps: tuple[int, ...]) -> None:
    ended = trained(tmp_path, kind, *ALGORITHMS[kind])
    wanted = {part: [count] for part, count in (EVALUATED | PLAYED[kind]).items()}
    if kind == "agentevol":
        # two iterations, each with denominators of its own
        wanted["explore", "train"] = [6, 6]
    assert counted(ended.json) == wanted
    whole = results_digest(tmp_path)
    # step 1 is in the middle of an iteration of agentevol and of a pass over the demonstrations of sft, step 2 at its end
    for step in steps:
        taken_back(tmp_path, step)
        assert results_digest(tmp_path) == whole


def test_an_exported_model_is_what_a_later_recipe_begins_with(tmp_path: Path) -> None:
    trained(tmp_path, "sft", SFT, LORA, "train.keep_checkpoints=2")
    assert sorted(path.name for path in (only_run(tmp_path) / "checkpoints").iterdir()) == ["step-000000", "step-000003", "step-000004"]
    made = run(tmp_path, "export", str(only_run(tmp_path)), "-o", "models/taught", "--json")
    assert made.code == 0, made.err
    folder = tmp_path / "models" / "taught"
    card = (folder / "README.md").read_text()
    assert "| algorithm | sft |" in card and "| unseen\\_goals | 0.0% (0 of 2) |" in card and "kind oracle, count 8" in card.replace("\\", "")
    network = build_model(folder, seed=None, vocabulary=125, context=256)
    batch = pad([Example(trajectory=trajectory("ooaaoaaa"), advantage=0.0)])
    with torch.no_grad():
        ours = action_scores(network, batch, temperature=1.0).logp[0]
        theirs = torch.log_softmax(AutoModelForCausalLM.from_pretrained(folder)(batch.token_ids).logits, dim=-1)[0]
    places = (2, 3, 5, 6, 7)
    assert [float(ours[place]) for place in places] == pytest.approx(
        [float(theirs[place - 1, batch.token_ids[0, place]]) for place in places], abs=1e-5
    )
    later = tmp_path / "later"
    later.mkdir()
    trained(later, "sft", SFT, f"policy.model={{path: {folder}, weights: files}}")
