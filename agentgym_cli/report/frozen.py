"""What a report needs of a frozen run, read from its JSON; whatever is not there is None, so that old runs can still be reported."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from agentgym_cli.recipe.parts import SEMANTICS


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenFacts:
    """A few of a frozen run's settings."""

    stack: str | None
    lock: str | None
    """SHA-256 of the stack's lock file."""
    retry_attempts: int | None
    """Most attempts at one episode."""
    max_infra_share: float | None
    """Largest share of infra errors in a phase that is not degraded."""
    max_action_induced_share: float | None
    """The same for those that came back on the same action."""
    evaluation_limit: int | None
    """Most tasks per split, by choice; None runs all."""
    chooses: bool
    """Tasks of a split are chosen by ``evaluation.only``, by number or category."""
    only_splits: tuple[str, ...] | None
    """Splits that ``evaluation.only`` chooses; None: all."""
    samples: int | None
    """Episodes of each task of an evaluation."""
    tasks: dict[str, int]
    """Tasks in each evaluation split, before any limit."""
    categories: dict[str, dict[str, int]]
    """The same by category; no split where the run is from before this was kept."""
    runs_dir: str
    database: str
    gpus: int | None
    """GPUs of the cluster; None without one."""
    endpoint: bool
    """A policy over HTTP is named, whose GPUs nobody here knows."""
    price_read: float | None
    """Of a million tokens that the policy reads, as the recipe says."""
    price_sampled: float | None
    """Of a million tokens that the policy samples, in the same currency."""
    semantics: str | None
    """What a success of the environment means where that is not what one would think; foreign text."""


_DEEPEST = 100
"""Lists and objects inside one another; a frozen run has fewer than ten."""
_DIGITS = 18


def read_document(frozen: str) -> object:
    """The column ``frozen`` of a run as JSON; None where it is none, or nothing that a frozen run could be."""
    try:
        document = json.loads(frozen)
    except (ValueError, RecursionError):
        return None
    return None if _deep(document) else document


def _deep(document: object) -> bool:
    """Whether it is nested so deeply that whoever goes through it could fail."""
    layer: list[object] = [document]
    for _ in range(_DEEPEST):
        layer = [inner for each in layer if isinstance(each, dict | list) for inner in (each.values() if isinstance(each, dict) else each)]
        if not layer:
            return False
    return True


def read_facts(frozen: str) -> FrozenFacts:
    """Read the column ``frozen`` of a run."""
    document = read_document(frozen)
    stack = text(at(document, "config", "engine", "stack"))
    parts = at(document, "parts")
    counts = {
        item.removeprefix("tasks.evaluation."): at(part, "count")
        for item, part in (parts.items() if isinstance(parts, dict) else [])
        if item.startswith("tasks.evaluation.")
    }
    return FrozenFacts(
        stack=stack,
        lock=text(at(document, "parts", "lock", f"{stack}.txt")),
        retry_attempts=whole(at(document, "config", "retry", "attempts")),
        max_infra_share=number(at(document, "config", "env", "max_infra_share")),
        max_action_induced_share=number(at(document, "config", "env", "max_action_induced_share")),
        evaluation_limit=whole(at(document, "config", "evaluation", "limit")),
        chooses=any(at(document, "config", "evaluation", "only", key) is not None for key in ("ids", "categories")),
        only_splits=_names(at(document, "config", "evaluation", "only", "splits")),
        samples=whole(at(document, "config", "evaluation", "samples_per_task")),
        tasks={split: int(count) for split, count in counts.items() if isinstance(count, str) and count.isdecimal() and len(count) <= _DIGITS},
        categories=_categories(at(document, "categories")),
        runs_dir=text(at(document, "config", "store", "runs_dir")) or "runs",
        database=text(at(document, "config", "store", "database")) or "results.duckdb",
        gpus=_gpus(at(document, "config", "cluster")),
        endpoint=at(document, "config", "policy", "endpoint") is not None,
        price_read=number(at(document, "config", "policy", "endpoint", "price_per_million_input")),
        price_sampled=number(at(document, "config", "policy", "endpoint", "price_per_million_output")),
        semantics=text(at(document, "parts", "rules", SEMANTICS)),
    )


def _categories(value: object) -> dict[str, dict[str, int]]:
    """Counts by split and category; what is none is left out."""
    splits = value.items() if isinstance(value, dict) else []
    return {
        str(split): {str(name): count for name, count in counts.items() if whole(count) is not None}
        for split, counts in splits
        if isinstance(counts, dict)
    }


def _gpus(cluster: object) -> int | None:
    nodes, each = whole(at(cluster, "nodes")), whole(at(cluster, "gpus_per_node"))
    return None if nodes is None or each is None else nodes * each


def _names(value: object) -> tuple[str, ...] | None:
    return tuple(map(str, value)) if isinstance(value, list) else None


def at(document: object, *keys: str) -> object:
    """What stands under the keys, None where there is nothing."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def text(value: object) -> str | None:
    """A text, None for anything else."""
    return value if isinstance(value, str) else None


def number(value: object) -> float | None:
    """A finite number as a float, None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def whole(value: object) -> int | None:
    """A whole number, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
