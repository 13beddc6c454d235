"""The advantages of the local engine on what verl has: the same code on the same numbers, unscored members of groups included. Knows no tensors."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.learn.algorithms import algorithm_of
from agentgym_cli.learn.experience import Groups, Paid, PerToken
from agentgym_cli.recipe.schema.algorithms import OnlineSpec


def credited(rewards: Sequence[Sequence[float]], groups: Sequence[str], spec: OnlineSpec) -> list[PerToken]:
    """Advantages of the action tokens of each trajectory that there is.

    Args:
        rewards: what was paid on each action token of each trajectory.
        groups: which group each is of. Members of which there is no trajectory had no score, or no action token; they are not counted as scored.
    """
    members: dict[str, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    paid: Groups = [
        [Paid(total=sum(rewards[place]), rewards=tuple(rewards[place])) for place in places] + [None] * (spec.group_size - len(places))
        for places in members.values()
    ]
    found: list[PerToken] = [()] * len(rewards)
    for places, credits in zip(members.values(), algorithm_of(spec).credit(paid).members, strict=True):
        for place, credit in zip(places, credits, strict=False):
            length = len(rewards[place])
            given = 0.0 if credit is None else credit.advantage
            found[place] = given if isinstance(given, tuple) else (given,) * length
    return found
