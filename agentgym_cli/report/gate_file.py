"""What a gate's file may say: strict keys with lines, like a recipe's. Judges nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import alike, listed, shown
from agentgym_cli.recipe.yaml import MAX_BYTES, YamlFile, parse_yaml, read_text
from agentgym_cli.report.conditions import WHATS

WHOLE = "all"
"""In ``no_regression``: the whole split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Rules of promotion; None and empty ask for nothing."""

    file: str
    digest: str
    split: str
    """The evaluation split that is judged, at its latest evaluation."""
    minimum_end_to_end: float | None
    minimum_lower_bound: float | None
    """Of the 95% interval of end-to-end success."""
    maximum_infra_share: float | None
    baseline: str | None
    """Name of a run in the same store."""
    no_regression: tuple[str, ...]
    """Categories, or ``all``."""
    same_tasks: bool
    held_out: bool
    trained_by: str | None
    """Name of a run in the same store that trained the policy, where no record says so."""
    allow_different: tuple[str, ...]
    """Conditions in which the run and its baseline may differ."""
    allow_drift: bool
    allow_degraded: bool


def _share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_name, value)) and len(set(map(str, value))) == len(value)


def _conditions(value: object) -> bool:
    return isinstance(value, list) and _names(value) and all(name in WHATS for name in value)


def _yes(value: object) -> bool:
    return isinstance(value, bool)


_A_SHARE = "a number from 0 to 1"
KEYS: Mapping[str, tuple[str, Callable[[object], bool], str]] = MappingProxyType(
    {
        "split": ("a name", _name, "The evaluation split that is judged, at its latest evaluation. Required."),
        "minimum_end_to_end": (_A_SHARE, _share, "Least end-to-end success: successes of scheduled episodes."),
        "minimum_lower_bound": (_A_SHARE, _share, "Least lower end of its 95% interval, so that a small sample cannot pass by luck."),
        "maximum_infra_share": (_A_SHARE, _share, "Largest share of scheduled episodes that the world's failures ended."),
        "baseline": (
            "a run's name",
            _name,
            "A run of the same store, for the two rules below. It must have been measured under the same conditions as the run that is judged.",
        ),
        "no_regression": (
            "a list of categories without repeats, or of all",
            _names,
            "Categories in which success may not be significantly below the baseline's, paired by task, Holm over the list; `all` is the split.",
        ),
        "same_tasks": ("true or false", _yes, "The split must hold the same tasks, by content, as the baseline's."),
        "held_out": ("true or false", _yes, "No task of the split may be a task of training, by number or by content."),
        "trained_by": (
            "a run's name",
            _name,
            "A run of the same store that trained the policy, for `held_out`; asked for where no record says where the weights come from.",
        ),
        "allow_different": (
            f"a list without repeats of {', '.join(WHATS)}",
            _conditions,
            "Conditions that need not be the baseline's; each difference is still said.",
        ),
        "allow_drift": ("true or false", _yes, "The run and its baseline may have run with drift; it is still said."),
        "allow_degraded": ("true or false", _yes, "They may be degraded: more infra errors than their recipes allow."),
    }
)
"""Every key: what it expects, whether a value is that, and what it means."""
_RULES = ("minimum_end_to_end", "minimum_lower_bound", "maximum_infra_share", "no_regression", "same_tasks", "held_out")
_COMPARING = ("no_regression", "same_tasks")


def read_gate(path: Path) -> Gate:
    """Read a gate's file.

    Raises:
        RecipeError: the file cannot be read, or says something that cannot be meant; every mistake is named with its line.
    """
    text = read_text(path, MAX_BYTES)
    file = parse_yaml(text, path)
    _refuse(path, [*_strange(file), *_incomplete(file)])
    data = file.data
    return Gate(
        file=path.name,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        split=str(data["split"]),
        minimum_end_to_end=_number(data.get("minimum_end_to_end")),
        minimum_lower_bound=_number(data.get("minimum_lower_bound")),
        maximum_infra_share=_number(data.get("maximum_infra_share")),
        baseline=str(data["baseline"]) if "baseline" in data else None,
        no_regression=_listed(data.get("no_regression")),
        same_tasks=data.get("same_tasks") is True,
        held_out=data.get("held_out") is True,
        trained_by=str(data["trained_by"]) if "trained_by" in data else None,
        allow_different=_listed(data.get("allow_different")),
        allow_drift=data.get("allow_drift") is True,
        allow_degraded=data.get("allow_degraded") is True,
    )


def _listed(names: object) -> tuple[str, ...]:
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _strange(file: YamlFile) -> Sequence[tuple[int, str]]:
    found = []
    for key, value in file.data.items():
        line = file.lines[(key,)]
        if key not in KEYS:
            like = alike(key, KEYS)
            found.append((line, f"expected one of {listed(KEYS)}, got the unknown key {shown(key)}{f'; did you mean {like}?' if like else ''}"))
        elif not KEYS[key][1](value):
            found.append((line, f"{key}: expected {KEYS[key][0]}, got {shown(value)}"))
    return found


def _incomplete(file: YamlFile) -> Sequence[tuple[int, str]]:
    """What is missing; a mistyped key is a mistake of its own, and what it was meant for is not missing besides."""
    data, first = file.data, file.lines[()]
    strange = [key for key in data if key not in KEYS]
    there = {*data, *filter(None, (alike(key, KEYS) for key in strange))}
    found = [] if "split" in there else [(first, "split: expected a name, got nothing")]
    if not strange and all(data.get(key, False) is False for key in _RULES):
        found.append((first, f"expected at least one rule of {listed(_RULES)}, got none"))
    comparing = [key for key in _COMPARING if data.get(key)]
    if comparing and "baseline" not in there:
        found.append((file.lines[(comparing[0],)], f"{comparing[0]}: expected a baseline to compare with, got none"))
    if "trained_by" in data and not strange and data.get("held_out") is not True:
        found.append((file.lines[("trained_by",)], "trained_by: expected held_out: true, which reads it, got none"))
    if "allow_different" in data and "baseline" not in there:
        found.append((file.lines[("allow_different",)], "allow_different: expected a baseline to differ from, got none"))
    if "baseline" in data and not strange and not comparing:
        found.append((file.lines[("baseline",)], f"baseline: expected a rule that compares with it ({listed(_COMPARING)}), got none"))
    return found


def _refuse(path: Path, problems: Sequence[tuple[int, str]]) -> None:
    said = [f"{path}:{line}: {problem}" for line, problem in sorted(problems)]
    if len(said) == 1:
        raise RecipeError(said[0], "docs/gate.md has every key")
    if said:
        raise RecipeError("\n  ".join([f"{len(said)} things in {path} cannot be meant", *said]), "docs/gate.md has every key")


def keys_table() -> str:
    """Every key as a Markdown table."""
    lines = ["| key | expects | what it asks for |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{key}` | {expects} | {means} |" for key, (expects, _, means) in KEYS.items())]) + "\n"
