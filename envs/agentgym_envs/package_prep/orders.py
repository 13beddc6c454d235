"""Tasks of package_prep: what is ordered, and what only an inspection shows. Knows no session; a pure function of the task's number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

THINGS = ("mug", "book")
MATERIALS = ("bubble wrap", "cardboard", "paper")
TASK_COUNT = 120

_COLOURS = ("blue", "green", "red", "white", "grey", "yellow")
_TITLES = ("Knots and Splices", "The Tide Tables", "A Winter Garden", "Bread at Home", "Maps of the Moor", "The Clockmaker")
_TOWNS = ("Aldmoor", "Brinewick", "Corran", "Dunlow", "Eastmere", "Fallowby", "Gorsedale", "Hythe End")
_ORDERED = (("mug",), ("book",), ("mug", "book"))


@dataclass(frozen=True, slots=True)
class Finding:
    """What an inspection of a thing shows, and the material that it calls for."""

    text: str
    material: str


_FINDINGS = {
    "mug": (
        Finding("It is thin porcelain: it breaks.", "bubble wrap"),
        Finding("It is enamelled steel: it neither breaks nor bends.", "paper"),
    ),
    "book": (
        Finding("Its cover is limp: it bends.", "cardboard"),
        Finding("Its cover is hard board: it neither breaks nor bends.", "paper"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One task. ``findings`` is hidden until a thing is inspected."""

    things: tuple[str, ...]
    """What is ordered; the other things stay out of the package."""
    town: str
    looks: dict[str, str]
    """By thing, what anybody sees of it on the shelf."""
    shelf: tuple[str, ...]
    """Things and materials, in the order in which they lie there."""
    findings: dict[str, Finding]

    @property
    def goal(self) -> str:
        """What is to be done, in words."""
        return f"ship {' and '.join(f'the {thing}' for thing in self.things)} to {self.town}"

    @property
    def packed(self) -> dict[str, str]:
        """By ordered thing, the material it must be packed in."""
        return {thing: self.findings[thing].material for thing in self.things}


def order_of(index: int) -> Order:
    """The order of task ``index``, 0 <= index < TASK_COUNT: its kind by turns, so that every kind is as frequent, the rest by its number's hash."""
    kind, rest = index % len(_ORDERED), index // len(_ORDERED)
    mug, book = _FINDINGS["mug"][rest % 2], _FINDINGS["book"][rest // 2 % 2]
    return Order(
        things=_ORDERED[kind],
        town=_drawn(index, "town", _TOWNS),
        looks={"mug": f"a {_drawn(index, 'colour', _COLOURS)} mug", "book": f'a book called "{_drawn(index, "title", _TITLES)}"'},
        shelf=tuple(sorted((*THINGS, *MATERIALS), key=lambda name: _number(index, f"shelf/{name}"))),
        findings={"mug": mug, "book": book},
    )


def _drawn(index: int, what: str, among: Sequence[str]) -> str:
    return among[_number(index, what) % len(among)]


def _number(index: int, what: str) -> int:
    return int.from_bytes(sha256(f"package_prep/{index}/{what}".encode()).digest()[:8], "big")
