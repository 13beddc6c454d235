"""How much older than the newest weights those are that sampled a batch's tokens. Pure; knows no tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Runs = Sequence[Sequence[int]]
"""Of one trajectory: optimizer step of the weights, and how many action tokens in a row they sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """In optimizer steps, over the action tokens of a batch."""

    oldest: int
    mean: float


def versions_of(runs: Runs) -> Iterator[int]:
    """The optimizer step of each action token, in order."""
    for version, tokens in runs:
        yield from (version,) * tokens


def ages(trajectories: Sequence[Runs], *, newest: int) -> Ages | None:
    """What there is of the weights of step ``newest``, with which the batch is learned from; None without a token."""
    counts = [(newest - version, tokens) for runs in trajectories for version, tokens in runs if tokens]
    if not counts:
        return None
    total = sum(tokens for _, tokens in counts)
    return Ages(oldest=max(age for age, _ in counts), mean=sum(age * tokens for age, tokens in counts) / total)
