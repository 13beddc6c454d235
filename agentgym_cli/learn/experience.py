"""What an algorithm is given and what it gives back: episodes with what they were paid, and an advantage for each. Knows no tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentgym_cli.episode.types import Trajectory

PerToken = tuple[float, ...]
"""One number for each action token of a trajectory that can be scored, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One planned episode of a group, as learning sees it."""

    reward: float | None
    """Return, costs taken off; None when the episode has none (infra error or missing)."""
    trajectory: Trajectory | None
    """None when there is none; only a scored member's is used."""
    payments: tuple[tuple[int, float], ...] | None = None
    """Places of action tokens in the trajectory and what each was paid, which adds up to ``reward``; None pays all on the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """What a scored episode was paid, and what a critic expected."""

    total: float
    """Return, with KL taken off where the algorithm does that."""
    rewards: PerToken
    """The same by action token; empty for an episode that has none, which still counts in the baseline of its group."""
    values: PerToken = ()
    """What the critic said before each action token; empty without one."""


Groups = Sequence[Sequence[Paid | None]]
"""All planned members of a step by group; None is a member without a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCredit:
    """What learning makes of one member."""

    advantage: float | PerToken
    """One number for all action tokens, or one for each."""
    targets: PerToken = ()
    """What the critic should have said before each action token; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """What learning makes of a step."""

    members: tuple[tuple[MemberCredit | None, ...], ...]
    """By group; None where a member takes no part."""
    dropped: int = 0
    """Groups with too few scored members for a baseline."""
    zero_variance: int | None = None
    """Groups whose scored members were all paid alike; None where groups have no baseline."""


class Algorithm(Protocol):
    """Turns what episodes were paid into advantages."""

    def credit(self, groups: Groups) -> Credit:
        """Advantages of a step's episodes. Members that are None leave no trace in any number."""
        ...


def action_places(trajectory: Trajectory) -> list[int]:
    """Places of the action tokens that can be scored: all but a first token, which nothing precedes."""
    return [place for place, sampled in enumerate(trajectory.action_mask) if sampled and place]


def token_rewards(member: Member) -> PerToken:
    """What a scored member was paid, by action token; empty when there is none. A place that is no action token raises ValueError."""
    assert member.reward is not None, "only scored members are paid"
    places = action_places(member.trajectory) if member.trajectory is not None else []
    if not places:
        return ()
    rewards = dict.fromkeys(places, 0.0)
    for place, amount in member.payments if member.payments is not None else ((places[-1], member.reward),):
        if place not in rewards:
            raise ValueError(f"payment at token {place}: expected an action token, got one that the policy did not sample")
        rewards[place] += amount
    return tuple(rewards.values())
