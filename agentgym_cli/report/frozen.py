"""What a report needs of a frozen run, read from its JSON; whatever is not there is None, so that old runs can still be reported."""

from __future__ import annotations

import json
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
    tasks: dict[str, int]
    """Tasks in each evaluation split, before any limit."""
    runs_dir: str
    database: str
    semantics: str | None
    """What a success of the environment means where that is not what one would think; foreign text."""


def read_facts(frozen: str) -> FrozenFacts:
    """Read the column ``frozen`` of a run."""
    try:
        document: object = json.loads(frozen)
    except json.JSONDecodeError:
        document = None
    stack = _text(_at(document, "config", "engine", "stack"))
    parts = _at(document, "parts")
    counts = {
        item.removeprefix("tasks.evaluation."): _at(part, "count")
        for item, part in (parts.items() if isinstance(parts, dict) else [])
        if item.startswith("tasks.evaluation.")
    }
    return FrozenFacts(
        stack=stack,
        lock=_text(_at(document, "parts", "lock", f"{stack}.txt")),
        retry_attempts=_whole(_at(document, "config", "retry", "attempts")),
        max_infra_share=_number(_at(document, "config", "env", "max_infra_share")),
        max_action_induced_share=_number(_at(document, "config", "env", "max_action_induced_share")),
        evaluation_limit=_whole(_at(document, "config", "evaluation", "limit")),
        tasks={split: int(count) for split, count in counts.items() if isinstance(count, str) and count.isdecimal()},
        runs_dir=_text(_at(document, "config", "store", "runs_dir")) or "runs",
        database=_text(_at(document, "config", "store", "database")) or "results.duckdb",
        semantics=_text(_at(document, "parts", "rules", SEMANTICS)),
    )


def _at(document: object, *keys: str) -> object:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
