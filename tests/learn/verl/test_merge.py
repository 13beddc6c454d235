"""Adapters that verl's merger leaves beside a model become part of its weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.verl.merge import ADAPTERS, WEIGHTS, fold_adapters, merge

pytestmark = pytest.mark.torch
LAYER = "model.layers.0.self_attn.q_proj"


def merged_by_verl(folder: Path, *, alpha: int = 8, layer: str = LAYER) -> None:
    """A weight of 2 x 3, an adapter of rank 2, and another weight."""
    save_file({f"{LAYER}.weight": torch.ones(2, 3, dtype=torch.bfloat16), "lm_head.weight": torch.zeros(2, 2)}, folder / WEIGHTS)
    place = folder / ADAPTERS
    place.mkdir()
    down, up = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]), torch.tensor([[0.5, 0.0], [0.0, -1.0]])
    named = f"base_model.model.{layer}"
    save_file({f"{named}.lora_A.weight": down, f"{named}.lora_B.weight": up}, place / "adapter_model.safetensors")
    (place / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": alpha}), encoding="utf-8")


def test_a_weight_gets_its_adapter_by_alpha_over_rank_and_no_other_changes(tmp_path: Path) -> None:
    merged_by_verl(tmp_path)
    fold_adapters(tmp_path)
    with safe_open(tmp_path / WEIGHTS, framework="pt") as found:
        # 8 / 2 times [[0.5, 0, 1], [0, -1, 0]], added to ones.
        assert found.get_tensor(f"{LAYER}.weight").tolist() == [[3.0, 1.0, 5.0], [1.0, -3.0, 1.0]]
        assert found.get_tensor(f"{LAYER}.weight").dtype == torch.bfloat16
        assert found.get_tensor("lm_head.weight").tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert found.metadata() == {"format": "pt"}
    assert not (tmp_path / ADAPTERS).exists()


@pytest.mark.parametrize(("alpha", "layer"), [(0, LAYER), (8, "model.layers.7.self_attn.q_proj")], ids=["unknown scale", "unknown layer"])
def test_adapters_that_fit_nothing_are_refused(tmp_path: Path, alpha: int, layer: str) -> None:
    merged_by_verl(tmp_path, alpha=alpha, layer=layer)
    with pytest.raises(TrainerError, match="expected adapters of the model's own layers and their scale"):
        fold_adapters(tmp_path)


def test_a_checkpoint_without_its_tokenizer_is_not_merged(tmp_path: Path) -> None:
    (tmp_path / "huggingface").mkdir()
    with pytest.raises(TrainerError, match=r"expected the checkpoint's tokenizer, huggingface/tokenizer\.json, got none") as refused:
        merge(tmp_path, tmp_path / "model", variables={})
    assert refused.value.hint == "agentgym export RUN --step N takes another checkpoint"
