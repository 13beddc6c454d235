"""The seam between verl's agent loop and whoever plays the episodes for it. Knows neither of them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from agentgym_cli.episode.policies.sampled import Sampler
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.verl.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """An episode that is learned from."""

    trajectory: Trajectory
    reward: float
    """What learning is paid, costs taken off."""
    turns: int


class Site(Protocol):
    """Where one worker plays."""

    def row(self, rows: str, place: int) -> Row:
        """A row of the schedule, ``rows`` saying which list it is in."""

    async def play(self, row: Row, *, member: int, step: int, sampler: Sampler) -> Played | None:
        """Play one member of a row's group to its outcome, retries included, and record it; None where nothing can be learned from it.

        Args:
            step: verl's own step; in an evaluation that of the weights.
        """


class OpenSite(Protocol):
    """Makes a site."""

    async def __call__(self, setup: Path) -> Site:
        """From the file that the launcher wrote."""


def opener(name: str) -> OpenSite:
    """The function ``package.module:function``."""
    module, _, function = name.partition(":")
    found: OpenSite = getattr(import_module(module), function)
    return found
