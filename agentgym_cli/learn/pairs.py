"""Pairs of a better and a worse episode of one task. Knows no tensors and no files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from agentgym_cli.episode.types import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A scored episode, as pairs are made of it and as exploration is kept."""

    task: int
    """Number of its task."""
    reward: float
    """Return."""
    success: bool
    trajectory: Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two episodes of one task."""

    chosen: Trajectory
    rejected: Trajectory

    @property
    def length(self) -> int:
        """Tokens of the longer one."""
        return max(len(self.chosen.token_ids), len(self.rejected.token_ids))

    @property
    def equal(self) -> bool:
        """Whether both say the same, which teaches nothing."""
        a, b = self.chosen, self.rejected
        return (a.token_ids, a.action_mask) == (b.token_ids, b.action_mask)


def pairs_of(candidates: Sequence[Candidate], *, margin: float | None, most: int) -> tuple[list[Pair], int]:
    """Pairs of one source, task by task in order of first appearance, and how many were equal and left out.

    Args:
        margin: least difference in return; None pairs a success with a failure.
        most: pairs of one task. Where there are more, each episode is used once before any is used again.
    """
    found: list[Pair] = []
    equal = 0
    for members in _by_task(candidates):
        taken = 0
        for better, worse in _combinations(members, margin):
            pair = Pair(chosen=better.trajectory, rejected=worse.trajectory)
            if pair.equal:
                equal += 1
            elif taken < most:
                found.append(pair)
                taken += 1
    return found, equal


def _combinations(members: Sequence[Candidate], margin: float | None) -> Iterator[tuple[Candidate, Candidate]]:
    """Better and worse members: first with first, second with second and so on, then at growing distances."""
    if margin is None:
        better, worse = [each for each in members if each.success], [each for each in members if not each.success]
    else:
        better = sorted(members, key=lambda each: -each.reward)
        worse = better[::-1]
    for i, j in sorted(product(range(len(better)), range(len(worse))), key=lambda place: (abs(place[0] - place[1]), place)):
        if margin is None or better[i].reward - worse[j].reward >= margin:
            yield better[i], worse[j]


def _by_task(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    groups: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(candidate.task, []).append(candidate)
    return list(groups.values())
