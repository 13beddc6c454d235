"""Whether given inputs are what a recipe asks for: one to one, each with the exact count, a tag by one of its members."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_envs.textcraft.book import Book, Ingredient


def satisfies(book: Book, wanted: Sequence[Ingredient], given: Sequence[Ingredient]) -> bool:
    """Whether ``given`` matches ``wanted`` one to one, in any order."""
    if len(wanted) != len(given):
        return False
    fitting = []
    for want in wanted:
        names = (*book.members(want.name), *book.found_members.get(want.name, ()))
        fitting.append([place for place, part in enumerate(given) if part.count == want.count and part.name in names])
    taken: dict[int, int] = {}
    return all(_takes(want, fitting, taken, set()) for want in range(len(wanted)))


def _takes(want: int, fitting: Sequence[Sequence[int]], taken: dict[int, int], tried: set[int]) -> bool:
    """Let ``want`` have a place that fits it, where the one who has it can move on: an augmenting path of a bipartite matching (Kuhn 1955)."""
    for place in fitting[want]:
        if place not in tried:
            tried.add(place)
            if place not in taken or _takes(taken[place], fitting, taken, tried):
                taken[place] = want
                return True
    return False
