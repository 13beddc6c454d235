"""How many numbers a decoder has, counted from its config.json or from a shipped table. Loads no weights; knows no bytes and no devices."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import listed, shown

Family: TypeAlias = Literal["llama", "qwen2", "qwen3"]
FAMILIES: tuple[Family, ...] = get_args(Family)
_TABLE = Path(__file__).parent / "models.csv"
_FIELDS = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "vocab_size")
_NEEDED = "decoders with a gated MLP and two norms a layer are counted; another needs its parameters by hand"
_LARGEST = 1024 * 1024
_MOST = 10_000_000
"""Of any size in a configuration."""
_SUFFIXES = ("-instruct", "-base", "-chat")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A decoder: grouped-query attention, gated MLP, two norms a layer and one at the end."""

    hidden: int
    intermediate: int
    heads: int
    key_value_heads: int
    head_dim: int
    layers: int
    vocabulary: int
    tied: bool
    """Whether the output layer is the embedding."""
    biased: bool = True
    """Whether the query, key and value projections have biases, as Qwen2's do and Llama's do not."""
    output_biased: bool = False
    """Whether the output projection of attention has one too, as with ``attention_bias``."""
    head_norms: bool = False
    """Whether queries and keys are normed by head, as Qwen3's are: two gains of ``head_dim`` a layer."""

    @property
    def width(self) -> int:
        """Numbers of one token's queries."""
        return self.heads * self.head_dim

    @property
    def narrow(self) -> int:
        """Numbers of one token's keys, or of its values."""
        return self.key_value_heads * self.head_dim

    @property
    def layer_parameters(self) -> int:
        """Of one layer."""
        biases = (self.width + 2 * self.narrow if self.biased else 0) + (self.hidden if self.output_biased else 0)
        attention = self.hidden * (self.width + 2 * self.narrow) + biases + self.width * self.hidden
        norms = 2 * self.hidden + (2 * self.head_dim if self.head_norms else 0)
        return attention + 3 * self.hidden * self.intermediate + norms

    @property
    def embedding_parameters(self) -> int:
        """Of the embedding alone."""
        return self.vocabulary * self.hidden

    @property
    def vector_parameters(self) -> int:
        """Gains and biases: what ``train.parameters: gains`` trains."""
        matrices = self.hidden * (2 * self.width + 2 * self.narrow) + 3 * self.hidden * self.intermediate
        return self.layers * (self.layer_parameters - matrices) + self.hidden

    @property
    def parameters(self) -> int:
        """Exact count of the numbers in the whole model."""
        embeddings = self.embedding_parameters * (1 if self.tied else 2)
        return embeddings + self.layers * self.layer_parameters + self.hidden

    def adapter_parameters(self, rank: int, targets: tuple[str, ...]) -> int:
        """Of low-rank adapters on every layer: ``rank`` times the inputs and outputs of each target. Raises RecipeError for an unknown target."""
        sides = self._sides()
        unknown = [name for name in targets if name not in sides]
        if unknown:
            raise RecipeError(f"train.lora.targets: expected names of {listed(tuple(sides))}, got {shown(unknown[0])}")
        return self.layers * rank * sum(sides[name] for name in targets)

    def cache_bytes_per_token(self, bytes_per_number: int) -> int:
        """Key/value cache of one token of context."""
        return 2 * self.layers * self.narrow * bytes_per_number

    def _sides(self) -> Mapping[str, int]:
        """Inputs plus outputs of each linear layer of a block."""
        query, key, mlp = self.hidden + self.width, self.hidden + self.narrow, self.hidden + self.intermediate
        return {"q_proj": query, "k_proj": key, "v_proj": key, "o_proj": query, "gate_proj": mlp, "up_proj": mlp, "down_proj": mlp}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A row of the shipped table."""

    name: str
    shape: ModelShape
    published: int
    """Parameters as its publisher's files count them."""


def read_shape(config: Path) -> ModelShape:
    """Read a config.json. Raises RecipeError for another architecture, a missing field or sizes that do not fit each other."""
    try:
        if config.stat().st_size > _LARGEST:
            raise RecipeError(f"{config}: expected a model's config.json of at most {_LARGEST // 1024} KiB, got more")
        data = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as err:
        raise RecipeError(
            f"{config}: expected a model's config.json, got {type(err).__name__}: {str(err)[:200]}", "name a folder that holds config.json"
        ) from err
    family = data.get("model_type") if isinstance(data, dict) else None
    if family not in FAMILIES:
        got = shown(family) if isinstance(data, dict) else f"a JSON {type(data).__name__}"
        raise RecipeError(f"{config} model_type: expected one of {listed(FAMILIES)}, got {got}", _NEEDED)
    wrong = [name for name in _FIELDS if type(data.get(name)) is not int or not 1 <= data[name] <= _MOST]
    if wrong:
        raise RecipeError(f"{config}: expected whole numbers from 1 to {_MOST:,} in {', '.join(wrong)}", "complete the model's config.json")
    return _shape(str(config), data, family)


def _shape(where: str, data: Mapping[str, object], family: Family) -> ModelShape:
    sizes = {name: int(str(data[name])) for name in _FIELDS}
    heads, narrow = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    given = data.get("head_dim")
    if given is not None and (type(given) is not int or not 1 <= given <= _MOST):
        raise RecipeError(f"{where} head_dim: expected a whole number from 1 to {_MOST:,}, got {shown(given)}")
    if given is None and sizes["hidden_size"] % heads:
        raise RecipeError(f"{where}: expected head_dim, or a hidden_size that num_attention_heads divides, got {sizes['hidden_size']} and {heads}")
    if heads % narrow:
        raise RecipeError(f"{where}: expected num_key_value_heads that divides num_attention_heads, got {narrow} and {heads}")
    biased = data.get("attention_bias") is True
    return ModelShape(
        hidden=sizes["hidden_size"],
        intermediate=sizes["intermediate_size"],
        heads=heads,
        key_value_heads=narrow,
        head_dim=given if isinstance(given, int) else sizes["hidden_size"] // heads,
        layers=sizes["num_hidden_layers"],
        vocabulary=sizes["vocab_size"],
        tied=data.get("tie_word_embeddings") is True,
        biased=biased or family == "qwen2",
        output_biased=biased,
        head_norms=family == "qwen3",
    )


@cache
def known_models() -> Mapping[str, KnownModel]:
    """The shipped table, by name in lower case without the maker and without a suffix such as -Instruct."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["name"].lower(): _known(row) for row in rows}


def _known(row: Mapping[str, str]) -> KnownModel:
    data: dict[str, object] = {name: int(row[name]) for name in (*_FIELDS, "head_dim")}
    family = next(known for known in FAMILIES if known == row["model_type"])
    shape = _shape(row["name"], {**data, "tie_word_embeddings": row["tied"] == "yes"}, family)
    return KnownModel(name=row["name"], shape=shape, published=int(row["published"]))


def find_known(name: str) -> KnownModel | None:
    """The shipped facts of a name such as Qwen/Qwen2.5-7B-Instruct or models/smollm2_135m; None for one that is not in the table."""
    short = name.rsplit("/", 1)[-1].lower().replace("_", "-")
    for suffix in _SUFFIXES:
        short = short.removesuffix(suffix)
    return known_models().get(short)
