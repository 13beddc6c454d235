"""Parameters against published counts and by hand; configurations that cannot be counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.known_models import find_known, known_models, namesake
from agentgym_cli.capacity.model_config import read_shape
from agentgym_cli.errors import RecipeError
from tests.capacity.shapes import TINY, known

QWEN_7B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}


def written(folder: Path, **changes: object) -> Path:
    config = folder / "config.json"
    config.write_text(json.dumps({key: value for key, value in {**QWEN_7B, **changes}.items() if value != "gone"}))
    return config


@pytest.mark.parametrize("name", list(known_models()))
def test_every_shipped_model_has_its_published_parameter_count(name: str) -> None:
    assert known_models()[name].shape.parameters == known_models()[name].published


def test_the_table_has_the_families_that_are_promised() -> None:
    names = {model.name for model in known_models().values()}
    assert {f"Qwen2.5-{size}B" for size in ("0.5", "1.5", "3", "7", "14", "32", "72")} <= names
    assert {f"Qwen3-{size}B" for size in ("0.6", "1.7", "4", "8", "14", "32")} <= names
    assert {"Llama-3.1-8B", "Llama-3.1-70B", "Llama-3.2-1B", "Llama-3.2-3B", "SmolLM2-135M", "SmolLM2-360M", "SmolLM2-1.7B"} <= names


def test_a_folder_is_counted_as_the_table_is(tmp_path: Path) -> None:
    assert read_shape(written(tmp_path, max_position_embeddings=131_072)) == known("Qwen/Qwen2.5-7B-Instruct")


def test_qwen25_7b_needs_57344_bytes_of_cache_a_token_in_bf16() -> None:
    # 2 (key, value) x 28 layers x 4 heads x 128 numbers x 2 bytes
    assert known("Qwen2.5-7B").cache_bytes_per_token(2) == 57_344


def test_a_small_tied_model_is_counted_by_hand() -> None:
    # embeddings 40; q 16+4, k and v 2 x (8+2), o 16; mlp 72; norms 8; last norm 4
    assert TINY.parameters == 40 + 20 + 20 + 16 + 72 + 8 + 4


def test_gains_and_biases_are_counted_by_hand() -> None:
    # biases 4 + 2 + 2; norms 8; last norm 4
    assert TINY.vector_parameters == 4 + 2 + 2 + 8 + 4


def test_qwen3_norms_its_heads_and_has_no_biases(tmp_path: Path) -> None:
    plain = read_shape(written(tmp_path, model_type="llama"))
    normed = read_shape(written(tmp_path, model_type="qwen3"))
    assert normed.parameters - plain.parameters == 28 * 2 * 128


def test_attention_bias_has_four_biases_a_layer(tmp_path: Path) -> None:
    for family in ("llama", "qwen3"):
        plain, biased = (read_shape(written(tmp_path, model_type=family, attention_bias=bias)) for bias in (False, True))
        assert biased.parameters - plain.parameters == 28 * (3584 + 2 * 512 + 3584)


def test_qwen2_has_its_three_biases_whatever_attention_bias_says(tmp_path: Path) -> None:
    assert len({read_shape(written(tmp_path, attention_bias=bias)).parameters for bias in (False, True, None)}) == 1


def test_llamas_mlp_bias_is_three_vectors_a_layer(tmp_path: Path) -> None:
    plain, biased = (read_shape(written(tmp_path, model_type="llama", mlp_bias=bias)) for bias in (False, True))
    assert biased.parameters - plain.parameters == 28 * (2 * 18_944 + 3584)


def test_qwen3_without_head_dim_has_128(tmp_path: Path) -> None:
    assert read_shape(written(tmp_path, model_type="qwen3", hidden_size=5120, num_attention_heads=64, num_key_value_heads=8)).head_dim == 128


def test_positions_are_stretched_as_the_configuration_says(tmp_path: Path) -> None:
    plain = read_shape(written(tmp_path, max_position_embeddings=32_768))
    stretched = read_shape(written(tmp_path, max_position_embeddings=32_768, rope_scaling={"type": "yarn", "factor": 4.0}))
    assert [(shape.positions, shape.stretch) for shape in (plain, stretched)] == [(32_768, 1.0), (32_768, 4.0)]
    said = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    already = read_shape(written(tmp_path, max_position_embeddings=131_072, rope_scaling=said))
    assert (already.positions, already.stretch) == (131_072, 1.0)


def test_adapters_have_rank_times_inputs_and_outputs() -> None:
    # q: 4 in, 4 out; v: 4 in, 2 out
    assert TINY.adapter_parameters(3, ("q_proj", "v_proj")) == 3 * (4 + 4) + 3 * (4 + 2)


def test_adapters_on_a_layer_that_there_is_not_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"train.lora.targets: expected names of q_proj, .*, got 'w_pack'"):
        TINY.adapter_parameters(3, ("w_pack",))


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "mamba"},
        {"model_type": ["qwen2"]},
        {"hidden_size": None},
        {"num_hidden_layers": 0},
        {"num_hidden_layers": -3},
        {"vocab_size": True},
        {"intermediate_size": "gone"},
        {"head_dim": 0},
        {"num_attention_heads": 27},
        {"num_key_value_heads": 3},
        {"hidden_size": 10**400},
        {"head_dim": 10**9},
        {"tie_word_embeddings": "true"},
        {"attention_bias": 1},
        {"mlp_bias": "no"},
        {"quantization_config": {"quant_method": "awq", "bits": 4}},
        {"hidden_size": 1_000_000},
        {"num_hidden_layers": 4096, "hidden_size": 262_144, "num_attention_heads": 4096, "num_key_value_heads": 4096, "intermediate_size": 4_000_000},
        {"max_position_embeddings": "long"},
        {"rope_scaling": "yarn"},
        {"rope_scaling": {"type": "yarn", "factor": -4}},
    ],
)
def test_a_config_that_cannot_be_counted_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(RecipeError, match=r"config\.json.*: expected"):
        read_shape(written(tmp_path, **changes))


def test_an_unknown_architecture_is_told_what_is_counted(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"model_type: expected one of llama, qwen2, qwen3, got 'mamba'") as caught:
        read_shape(written(tmp_path, model_type="mamba"))
    assert caught.value.hint is not None and "gated MLP" in caught.value.hint


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "[" * 100_000, " " * 2_000_000])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    with pytest.raises(RecipeError, match=r"config\.json.*: expected"):
        read_shape(config)


def test_names_are_found_without_maker_and_suffix() -> None:
    assert find_known("Qwen/Qwen2.5-7B-Instruct") == find_known("qwen2.5-7b")
    assert find_known("models/smollm2_135m") == find_known("HuggingFaceTB/SmolLM2-135M-Instruct")
    assert find_known("nobody/Unheard-7B") is None
    assert find_known("meta-llama/Meta-Llama-3.1-8B-Instruct") == find_known("Llama-3.1-8B")
    assert find_known("meta-llama/Meta-Llama-3-70B") == known_models()["llama-3-70b"]


def test_another_makers_model_is_not_the_published_one() -> None:
    assert find_known("someone/Qwen2.5-7B") is None
    assert namesake("someone/Qwen2.5-7B") == find_known("Qwen/Qwen2.5-7B")
    assert namesake("Qwen/Qwen2.5-7B") is None and namesake("someone/else") is None


def test_a_shape_keeps_what_it_is_told() -> None:
    shape = ModelShape(hidden=8, intermediate=8, heads=2, key_value_heads=2, head_dim=8, layers=1, vocabulary=2, tied=False, biased=False)
    # untied: 2 x 16; q, k, v 3 x 8 x 16; o 16 x 8; mlp 192; norms 16; last 8
    assert shape.parameters == 32 + 384 + 128 + 192 + 16 + 8
