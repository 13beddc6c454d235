"""The shipped facts of published models, by the names that their makers gave them. The numbers are in models.csv."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.model_config import FAMILIES, FIELDS, shape_of_config

_TABLE = Path(__file__).parent / "models.csv"
_SUFFIXES = ("-instruct", "-base", "-chat")
_PREFIX = "meta-"
"""Before the names of the first Llama 3 models on the hub, and of no later ones."""
_FOLDERS = "models"
"""Where recipes expect a model that a person has to bring: no maker's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A row of the shipped table."""

    name: str
    maker: str
    """Who published it, as the hub calls them."""
    shape: ModelShape
    published: int
    """Parameters as its publisher's files count them."""


@cache
def known_models() -> Mapping[str, KnownModel]:
    """The shipped table, by name in lower case without the maker and without a suffix such as -Instruct."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row["name"].lower(): _known(row) for row in rows}


def _known(row: Mapping[str, str]) -> KnownModel:
    data: dict[str, object] = {name: int(row[name]) for name in (*FIELDS, "head_dim", "max_position_embeddings")}
    family = next(known for known in FAMILIES if known == row["model_type"])
    shape = shape_of_config(row["name"], {**data, "tie_word_embeddings": row["tied"] == "yes"}, family)
    return KnownModel(name=row["name"], maker=row["maker"], shape=shape, published=int(row["published"]))


def find_known(name: str) -> KnownModel | None:
    """The shipped facts of a name such as Qwen/Qwen2.5-7B-Instruct, Qwen2.5-7B or models/smollm2_135m; None for one that is not in the table, and
    for another maker's model of the same name."""
    maker, _, own = name.rpartition("/")
    found = _of_name(own)
    return found if found is not None and maker.lower() in ("", _FOLDERS, found.maker.lower()) else None


def namesake(name: str) -> KnownModel | None:
    """The published model that another maker's model has the name of; None where there is none."""
    return _of_name(name.rpartition("/")[2]) if find_known(name) is None else None


def _of_name(own: str) -> KnownModel | None:
    short = own.lower().replace("_", "-")
    for suffix in _SUFFIXES:
        short = short.removesuffix(suffix)
    return known_models().get(short.removeprefix(_PREFIX))
