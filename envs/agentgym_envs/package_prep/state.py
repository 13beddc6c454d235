"""What is where in package_prep, and which actions change it. Knows no order, no words and no reward."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class State:
    """The shelf, the hands, the package, the last check of it, and what the carrier took."""

    hands: set[str] = field(default_factory=set)
    """Things and materials that are held; what is neither held nor packed lies on the shelf. A material is not used up."""
    package: dict[str, str] = field(default_factory=dict)
    """By packed thing, the material around it."""
    changes: int = 0
    """How often something was taken or packed."""
    checked_at: int | None = None
    """``changes`` when the package was last checked; the check is stale when it is less than now."""
    shipped: dict[str, str] | None = None
    """What the carrier took, as it was packed; None while the package is here."""

    @property
    def checked(self) -> bool:
        """Whether the package was checked and nothing changed since."""
        return self.checked_at == self.changes

    def take(self, name: str) -> None:
        """Into the hands, from the shelf or out of the package."""
        self.package.pop(name, None)
        self.hands.add(name)
        self.changes += 1

    def pack(self, thing: str, material: str) -> None:
        """From the hands into the package."""
        self.hands.remove(thing)
        self.package[thing] = material
        self.changes += 1

    def check(self) -> None:
        """Look the package over, as it is now."""
        self.checked_at = self.changes

    def ship(self) -> None:
        """The carrier takes the package."""
        self.shipped = dict(self.package)
