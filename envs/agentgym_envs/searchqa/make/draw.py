"""Choices and names that depend on a seed alone: on no generator's state and no version of Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

T = TypeVar("T")

_STARTS = [
    "B",
    "Br",
    "D",
    "Dr",
    "F",
    "G",
    "Gr",
    "H",
    "J",
    "K",
    "Kr",
    "L",
    "M",
    "N",
    "O",
    "P",
    "Pr",
    "R",
    "S",
    "Sk",
    "St",
    "T",
    "Tr",
    "U",
    "V",
    "Vr",
    "Y",
    "Z",
]
_MIDDLES = ["a", "e", "i", "o", "u", "a", "e", "o", "ae", "ei", "ou"]
_LINKS = ["b", "d", "l", "ld", "lv", "m", "mb", "n", "nd", "nt", "r", "rg", "rk", "rn", "rv", "s", "sk", "st", "t", "v", "z"]
_ENDS = {
    "town": ["ava", "eth", "immo", "orra", "uld", "yst", "antz", "ovik"],
    "river": ["ell", "une", "aya", "osse", "ith", "uro"],
    "mountain": ["ak", "orn", "ukk", "azz", "esh"],
    "province": ["andria", "umere", "ossia", "ithra"],
    "sea": ["aan", "oel", "uin"],
    "first": ["a", "an", "e", "el", "i", "in", "o", "us"],
    "last": ["ack", "enko", "ison", "otte", "urim", "yan", "elis", "oste"],
}


@dataclass(slots=True)
class Draw:
    """Draws by a key each; the same key draws the same."""

    seed: str
    _given: set[str] = field(default_factory=set)

    def number(self, key: str, least: int, most: int) -> int:
        """Between least and most, both possible."""
        digest = sha256(f"{self.seed}/{key}".encode()).digest()
        return least + int.from_bytes(digest[:8], "big") % (most - least + 1)

    def pick(self, key: str, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.number(key, 0, len(options) - 1)]

    def shuffled(self, key: str, options: Sequence[T]) -> list[T]:
        """All of the options in another order."""
        places = sorted(range(len(options)), key=lambda place: sha256(f"{self.seed}/{key}/{place}".encode()).digest())
        return [options[place] for place in places]

    def name(self, kind: str, key: str) -> str:
        """A word that was given to nobody before."""
        for attempt in range(1_000):
            at = f"{kind}/{key}/{attempt}"
            middle = "" if kind in ("first", "last") else self.pick(f"{at}/m2", _MIDDLES) + self.pick(f"{at}/l2", _LINKS)
            name = self.pick(f"{at}/s", _STARTS) + self.pick(f"{at}/m", _MIDDLES) + self.pick(f"{at}/l", _LINKS) + middle
            name += self.pick(f"{at}/e", _ENDS[kind])
            if name not in self._given:
                self._given.add(name)
                return name
        raise AssertionError(f"no name is left for {kind}")
