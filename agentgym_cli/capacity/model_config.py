"""A decoder's sizes as its config.json says them: counted exactly, or refused with what is needed. Loads no weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import listed, shown

Family: TypeAlias = Literal["llama", "qwen2", "qwen3"]
FAMILIES: tuple[Family, ...] = get_args(Family)
MOST: Mapping[str, int] = {
    "hidden_size": 262_144,
    "intermediate_size": 4_194_304,
    "num_attention_heads": 4096,
    "num_hidden_layers": 4096,
    "num_key_value_heads": 4096,
    "vocab_size": 10_000_000,
    "head_dim": 8192,
}
"""The largest of each size that is taken for meant: some ten times that of any published model."""
FIELDS = tuple(name for name in MOST if name != "head_dim")
_MOST_PARAMETERS = 10**14
_NEEDED = "decoders with a gated MLP and two norms a layer are counted, by fields that docs/capacity.md lists; name a model of these families"
_COMPLETE = "complete the model's config.json; docs/capacity.md says which fields are read"
_LARGEST = 1024 * 1024
_QWEN3_HEAD_DIM = 128
"""What transformers takes where a Qwen3 configuration has no ``head_dim``; the other families divide ``hidden_size`` by the heads."""
_STRETCHING = ("linear", "yarn")
"""Kinds of rotary scaling that reach beyond ``max_position_embeddings``; with ``llama3`` that number is the stretched one already."""


def read_shape(config: Path) -> ModelShape:
    """Read a config.json. Raises RecipeError for another architecture, a missing field, sizes that do not fit each other, or quantized weights."""
    try:
        if config.stat().st_size > _LARGEST:
            raise RecipeError(f"{config}: expected a model's config.json of at most {_LARGEST // 1024} KiB, got more", _COMPLETE)
        data = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as err:
        raise RecipeError(
            f"{config}: expected a model's config.json, got {type(err).__name__}: {str(err)[:200]}", "name a folder that holds config.json"
        ) from err
    family = data.get("model_type") if isinstance(data, dict) else None
    if family not in FAMILIES:
        got = shown(family) if isinstance(data, dict) else f"a JSON {type(data).__name__}"
        raise RecipeError(f"{config} model_type: expected one of {listed(FAMILIES)}, got {got}", _NEEDED)
    wrong = [name for name in FIELDS if not _whole(data.get(name), MOST[name])]
    if wrong:
        asked = ", ".join(f"{name} (1 to {MOST[name]:,})" for name in wrong)
        raise RecipeError(f"{config}: expected whole numbers {asked}, got {shown(data.get(wrong[0]))} for {wrong[0]}", _COMPLETE)
    return shape_of_config(str(config), data, family)


def shape_of_config(where: str, data: Mapping[str, object], family: Family) -> ModelShape:
    """The sizes in a configuration whose ``FIELDS`` are whole numbers. Raises RecipeError as ``read_shape`` does."""
    sizes = {name: int(str(data[name])) for name in FIELDS}
    heads, narrow = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    if heads % narrow:
        raise RecipeError(f"{where}: expected num_key_value_heads that divides num_attention_heads, got {narrow} and {heads}", _COMPLETE)
    if data.get("quantization_config") is not None:
        raise RecipeError(
            f"{where} quantization_config: expected none, since weights of fewer bits are not counted, got one", "name the model's unquantized folder"
        )
    biased = _flag(where, data, "attention_bias")
    shape = ModelShape(
        hidden=sizes["hidden_size"],
        intermediate=sizes["intermediate_size"],
        heads=heads,
        key_value_heads=narrow,
        head_dim=_head_dim(where, data, family, sizes),
        layers=sizes["num_hidden_layers"],
        vocabulary=sizes["vocab_size"],
        tied=_flag(where, data, "tie_word_embeddings"),
        # Qwen2 has three biases whatever its configuration says; only Llama's MLP can have any.
        biased=family == "qwen2" or biased,
        output_biased=family != "qwen2" and biased,
        mlp_biased=_flag(where, data, "mlp_bias") and family == "llama",
        head_norms=family == "qwen3",
        positions=_positions(where, data),
        stretch=_stretch(where, data),
    )
    if shape.parameters > _MOST_PARAMETERS:
        raise RecipeError(f"{where}: expected a model of at most {_MOST_PARAMETERS:,} parameters, got {shape.parameters:,}", _COMPLETE)
    return shape


def _whole(value: object, most: int) -> bool:
    return type(value) is int and 1 <= value <= most


def _flag(where: str, data: Mapping[str, object], name: str) -> bool:
    """False where it is left out, as all these families have it."""
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise RecipeError(f"{where} {name}: expected true or false, got {shown(value)}", _COMPLETE)
    return value is True


def _head_dim(where: str, data: Mapping[str, object], family: Family, sizes: Mapping[str, int]) -> int:
    given = data.get("head_dim")
    if given is not None:
        if not isinstance(given, int) or not _whole(given, MOST["head_dim"]):
            raise RecipeError(f"{where} head_dim: expected a whole number from 1 to {MOST['head_dim']:,}, got {shown(given)}", _COMPLETE)
        return given
    if family == "qwen3":
        return _QWEN3_HEAD_DIM
    hidden, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    if hidden % heads:
        raise RecipeError(f"{where}: expected head_dim, or a hidden_size that num_attention_heads divides, got {hidden} and {heads}", _COMPLETE)
    return hidden // heads


def _positions(where: str, data: Mapping[str, object]) -> int | None:
    given = data.get("max_position_embeddings")
    if given is None:
        return None
    if not isinstance(given, int) or not _whole(given, 10**9):
        raise RecipeError(f"{where} max_position_embeddings: expected a whole number from 1 to 1,000,000,000, got {shown(given)}", _COMPLETE)
    return given


def _stretch(where: str, data: Mapping[str, object]) -> float:
    said = data.get("rope_parameters") or data.get("rope_scaling")
    if said is None:
        return 1.0
    if not isinstance(said, dict):
        raise RecipeError(f"{where} rope_scaling: expected a mapping, got {shown(said)}", _COMPLETE)
    if (said.get("rope_type") or said.get("type")) not in _STRETCHING:
        return 1.0
    factor, first = said.get("factor"), said.get("original_max_position_embeddings")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 1e6:
        raise RecipeError(f"{where} rope_scaling.factor: expected a number from 1, got {shown(factor)}", _COMPLETE)
    positions = data.get("max_position_embeddings")
    if isinstance(first, int) and isinstance(positions, int) and positions > 0:
        # Its positions may be the stretched ones already.
        return max(1.0, first * factor / positions)
    return float(factor)
