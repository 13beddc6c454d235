"""How long work tells what it is doing. Knows no terminal; the command line implements it, tests record it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

Cell = str | int | float | None


class Progress(Protocol):
    """Receives what a verb is doing; every method returns at once."""

    def note(self, label: str, text: str) -> None:
        """One fact about the run, e.g. ``digest`` and its value."""

    def warn(self, text: str) -> None:
        """Something that the user should know and that does not stop the run."""

    def begin(self, phase: str, total: int, unit: str, done: int = 0, at_once: int = 1) -> None:
        """A phase of ``total`` units begins, ``done`` of them in an earlier segment, ``at_once`` in flight; the previous phase is over."""

    def advance(self, done: int, cells: Mapping[str, Cell]) -> None:
        """``done`` units of the current phase are over; ``cells`` are what to show beside it."""

    def end(self) -> None:
        """The current phase is over."""


class Silent:
    """Shows nothing; keeps warnings for whoever asks."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def note(self, label: str, text: str) -> None:
        """Ignore it."""

    def warn(self, text: str) -> None:
        """Keep it."""
        self.warnings.append(text)

    def begin(self, phase: str, total: int, unit: str, done: int = 0, at_once: int = 1) -> None:
        """Ignore it."""

    def advance(self, done: int, cells: Mapping[str, Cell]) -> None:
        """Ignore it."""

    def end(self) -> None:
        """Ignore it."""
