"""The big book's items: their names, depths and what each is chiefly made of. Knows no counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentgym_envs.textcraft.make.words import FINISHES, FORMS, GROWTHS, KINDS, PLACES, SINGLE, SIZES, TAGS, TONES

T = TypeVar("T")
_FOUND_OF_TWO_WORDS = 38
_TWO_WORDS = {1: 127, 2: 150, 3: 66}
"""Unfinished goals of two words, by depth."""
_FINISHED = {2: {3: 90, 4: 37, 5: 3}, 3: {3: 40, 4: 7}, 4: {3: 11}}
"""Finished goals by depth and by words in the name."""
_FINISHED_ROOTS = {2: 12, 3: 8, 4: 4}
"""How many different things are finished, by depth: few, so that their recipes are related."""
_AGENTS = {agent for agents in FINISHES.values() for agent in agents}
_REQUIRED = {name for names in TAGS.values() for name in names} | _AGENTS


class Shuffle(Protocol):
    """Gives the same things in a drawn order."""

    def __call__(self, things: Sequence[T]) -> list[T]: ...


@dataclass(frozen=True, slots=True)
class Draft:
    """A goal to be: ``root`` is an input of depth ``depth - 1``; ``agent`` finishes it, '' for what is not finished."""

    name: str
    depth: int
    kind: str
    material: str
    root: str
    agent: str = ""


def found_items(shuffled: Shuffle) -> list[str]:
    """The 132 found items."""
    pairs = [f"{place} {growth}" for place in PLACES for growth in GROWTHS]
    return [*(name for names in KINDS.values() for name in names), *sorted(shuffled(pairs)[:_FOUND_OF_TWO_WORDS])]


def drafts(shuffled: Shuffle) -> list[Draft]:
    """The 544 goals, shallow ones first."""
    goals = [Draft(name, 1, "", root, root) for name, root in SINGLE.items()]
    layer = _simple(1, [Draft(name, 0, kind, name, "") for kind in FORMS for name in KINDS[kind]], shuffled)
    goals += layer
    for depth in (2, 3, 4):
        finished = _finished(depth, layer, shuffled)
        layer = _simple(depth, layer, shuffled) if depth in _TWO_WORDS else []
        goals += [*layer, *finished]
    return goals


def _simple(depth: int, below: Sequence[Draft], shuffled: Shuffle) -> list[Draft]:
    """Forms of materials, made of a thing of the same material, or else of the same kind."""
    options = []
    for kind, forms in FORMS.items():
        of_kind = shuffled([draft for draft in below if draft.kind == kind])
        for material in KINDS[kind]:
            roots = [draft for draft in of_kind if draft.material == material] or of_kind
            options += [Draft(f"{material} {form}", depth, kind, material, roots[0].name) for form in forms[depth - 1] if roots]
    # Stable: what a tag or a finish names comes first, the rest in the drawn order.
    chosen = sorted(shuffled(options), key=lambda draft: draft.name not in _REQUIRED)[: _TWO_WORDS[depth]]
    return sorted(chosen, key=lambda draft: (draft.kind, draft.name))


def _finished(depth: int, below: Sequence[Draft], shuffled: Shuffle) -> list[Draft]:
    """Finished versions of some things of the layer below."""
    roots = shuffled([draft for draft in below if draft.name not in _AGENTS])[: _FINISHED_ROOTS[depth]]
    namings: dict[int, Callable[[], Iterator[str]]] = {
        3: lambda: iter(FINISHES),
        4: lambda: (f"{tone} {finish}" for tone in TONES for finish in FINISHES),
        5: lambda: (f"{size} {tone} {finish}" for size in SIZES for tone in TONES for finish in FINISHES),
    }
    made = []
    for words, count in _FINISHED[depth].items():
        options = [
            Draft(f"{naming} {root.name}", depth, root.kind, root.material, root.name, FINISHES[naming.split()[-1]][depth > 2])
            for root in roots
            for naming in namings[words]()
        ]
        made += sorted(shuffled(options)[:count], key=lambda draft: (draft.root, draft.name))
    return made
