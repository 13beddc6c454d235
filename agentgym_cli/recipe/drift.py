"""What differs between two frozen runs, or between one and the files of now; and how that is said in a sentence. Writes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.canonical import leaves
from agentgym_cli.recipe.freeze import HARMLESS, Frozen, below, config_of
from agentgym_cli.recipe.parts import PARTS, TASKS, Part, Parts, Sources, task_parts
from agentgym_cli.recipe.wording import shown

_SHA256 = re.compile(r"[0-9a-f]{64}")
OBSERVED = "observed"
_SAID = 5
"""Most files of one item that are named one by one when drift is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key or file in which two frozen runs differ, or a frozen run and the files of now."""

    item: str
    """``config``, ``model``, ``tasks.train`` ..., or ``observed``, which is outside the digest."""
    name: str
    """``train.steps`` in the config; a file or a rule in any other item."""
    a: str | None
    """Canonical JSON of the value, or the digest; None when it is not there."""
    b: str | None
    affects_results: bool | None
    """None where nobody can say: servers that said something else."""

    @property
    def key(self) -> str:
        """``train.steps`` of the config, ``ITEM: NAME`` of any other item."""
        return self.name if self.item == "config" else f"{self.item}: {self.name}"

    @property
    def reordered(self) -> bool:
        """True when a list has the same tasks in another order."""
        return self.item.startswith(TASKS) and self.name == "order"


def check(frozen: Frozen) -> list[Difference]:
    """What has changed on disk since: ``a`` is the frozen digest, ``b`` the one of now, None where it cannot be read any more."""
    return _part_differences(frozen.parts, _parts_now(frozen))


def _parts_now(frozen: Frozen) -> Parts:
    now: dict[str, Part] = {}
    sources = Sources(run=frozen.run, beside=frozen.beside)
    for item, read in PARTS.items():
        try:
            now[item] = read(sources)
        except RecipeError:
            now[item] = {}
    try:
        return task_parts(sources.lists()) | now
    except RecipeError:
        return now


def diff(a: Frozen, b: Frozen) -> list[Difference]:
    """Every leaf of the config, every file and every server's words in which two frozen runs differ, sorted by key, config first."""
    ours, theirs = dict(leaves(config_of(a.run))), dict(leaves(config_of(b.run)))
    observed = [replace(each, affects_results=None) for each in _item_differences(OBSERVED, a.observed, b.observed)]
    return [*_item_differences("config", ours, theirs), *_part_differences(a.parts, b.parts), *observed]


def _part_differences(a: Parts, b: Parts) -> list[Difference]:
    nothing: Part = {}
    return [each for item in sorted(a.keys() | b.keys()) for each in _item_differences(item, a.get(item, nothing), b.get(item, nothing))]


def _item_differences(item: str, a: Part, b: Part) -> list[Difference]:
    names = sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))
    if item.startswith(TASKS) and "rows" in names:
        # Other tasks are in another order too, which says nothing.
        names = [name for name in names if name != "order"]
    return [
        Difference(item=item, name=name, a=a.get(name), b=b.get(name), affects_results=item != "config" or not below(name, HARMLESS))
        for name in names
    ]


def brief(value: str | None, *, nothing: str) -> str:
    """A value as a table shows it: 12 digits of a digest, at most 80 characters of anything else."""
    if value is None:
        return nothing
    if _SHA256.fullmatch(value):
        return value[:12]
    return value if value.isprintable() and len(value) <= 60 else shown(value)


def sentences(differences: Iterable[Difference]) -> tuple[str, ...]:
    """Drift as it is recorded and reported: a sentence for each difference, and one for what is left of an item with many."""
    said: list[str] = []
    for item, group in groupby(differences, key=lambda each: each.item):
        found = list(group)
        said += [_sentence(each) for each in found[:_SAID]]
        if rest := len(found) - _SAID:
            said += [f"another {item}: {rest} more"] if rest > 0 else []
    return tuple(said)


def _sentence(difference: Difference) -> str:
    was, now = (brief(value, nothing=nothing) for value, nothing in ((difference.a, "not there"), (difference.b, "gone")))
    if difference.reordered:
        return f"the same tasks in another order: {difference.item} (frozen {was}, then {now})"
    return f"another {difference.item}: {difference.name} (frozen {was}, then {now})"


def by_item(frozen: Frozen, differences: Sequence[Difference]) -> Mapping[str, list[Difference]]:
    """What has drifted in each item of a frozen run and in items that it had not; an empty list where nothing has."""
    items = [*frozen.items, *(each.item for each in differences if each.item not in frozen.items)]
    return {item: [each for each in differences if each.item == item] for item in dict.fromkeys(sorted(items))}
