"""Parameter counts against published ones, and budgets worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.capacity import memory
from agentgym_cli.errors import RecipeError

QWEN_7B = Path(memory.__file__).parent / "models" / "Qwen2.5-7B-Instruct.json"


def test_qwen25_7b_has_its_published_parameter_count():
    assert memory.read_shape(QWEN_7B).parameters == 7_615_616_512


def test_qwen25_7b_needs_57344_bytes_of_cache_a_token_in_bf16():
    # 2 (key, value) x 28 layers x 4 heads x 128 numbers x 2 bytes
    assert memory.read_shape(QWEN_7B).cache_bytes_per_token(2) == 57_344


def test_a_small_tied_model_is_counted_by_hand():
    shape = memory.ModelShape(hidden=4, intermediate=6, heads=2, key_value_heads=1, head_dim=2, layers=1, vocabulary=10, tied=True)
    # embeddings 40; q 16+4, k and v 2 x (8+2), o 16; mlp 72; norms 8; last norm 4
    assert shape.parameters == 40 + 20 + 20 + 16 + 72 + 8 + 4


def test_the_local_engine_peaks_where_cache_or_logits_are_larger():
    shape = memory.ModelShape(hidden=4, intermediate=6, heads=2, key_value_heads=1, head_dim=2, layers=1, vocabulary=10, tied=True)
    budget = memory.shared_memory_budget(shape, context=8, sequences=3, reference=True)
    # state 16 x 180, reference 4 x 180, logits 2 x 4 x 8 x 10 = 640, cache 3 x 8 x (2 x 1 x 1 x 2 x 4) = 384
    assert (budget.trainer_state, budget.reference, budget.logits, budget.cache) == (2880, 720, 640, 384)
    assert budget.peak == 2880 + 720 + 640


def test_sharding_over_more_devices_never_needs_more_memory_on_one():
    shape = memory.read_shape(QWEN_7B)
    peaks = [memory.sharded_memory_budget(shape, context=10_752, sequences=256, reference=True, devices=n).peak for n in (1, 2, 4, 8)]
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.parametrize("change", [{"model_type": "mamba"}, {"hidden_size": None}, {"num_hidden_layers": 0}, {"vocab_size": True}])
def test_a_config_that_cannot_be_counted_is_refused(tmp_path, change):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(QWEN_7B.read_text()), **change}))
    with pytest.raises(RecipeError, match=r"config\.json: expected"):
        memory.read_shape(config)


def test_a_llama_has_no_biases(tmp_path: Path):
    # SmolLM2-135M's sizes and its published count
    sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}
    config = tmp_path / "config.json"
    config.write_text(json.dumps(sizes | {"vocab_size": 49_152, "tie_word_embeddings": True, "model_type": "llama"}))
    assert memory.read_shape(config).parameters == 134_515_008
