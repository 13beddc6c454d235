"""REINFORCE++: no critic, advantages whitened over the whole step.

Hu et al., arXiv 2501.03262:

    A_t = sum_(k >= t) discount^(k - t) (r_k - beta * kl_k)      over the action tokens of an episode        (``baseline: none``)
    A_t = r_i - mean(r)                                          over the scored members of its group        (``baseline: group``)
    L   = - sum_t min(w_t A'_t, clip(w_t, 1 - e, 1 + e') A'_t) / N  -  gamma * H,    A' = (A - mean(A)) / (std(A) + 1e-6)

mean and std over the action tokens of all scored episodes of the step, std unbiased; w, N and H as in GRPO. KL is taken off the reward of each
token (estimate k1 in the paper), or added to the loss. With ``baseline: group`` it comes off the return, and a group with too few scored members is
dropped.

Assumes that one baseline suits all tasks of a step (``none``), or one return per episode and no discount (``group``). Where every advantage of a step
is equal there is no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.learn.advantages import group_advantages, returns_to_go, whitened
from agentgym_cli.learn.experience import Credit, Groups, MemberCredit, Paid
from agentgym_cli.learn.grpo import credit_groups
from agentgym_cli.recipe.schema.algorithms import ReinforcePlusPlusSpec


class ReinforcePlusPlus:
    """The advantages of REINFORCE++."""

    def __init__(self, spec: ReinforcePlusPlusSpec) -> None:
        self._spec = spec

    def credit(self, groups: Groups) -> Credit:
        """One advantage for each action token of each scored episode."""
        if self._spec.baseline == "none":
            return by_token([[self._returns(member) for member in members] for members in groups])
        centred = credit_groups(groups, lambda rewards: group_advantages(rewards, normalize_std=False))
        spread = [
            [_repeated(member, credit) for member, credit in zip(members, credits, strict=True)]
            for members, credits in zip(groups, centred.members, strict=True)
        ]
        return by_token(spread, dropped=centred.dropped, zero_variance=centred.zero_variance)

    def _returns(self, member: Paid | None) -> list[float] | None:
        return None if member is None else returns_to_go(member.rewards, discount=self._spec.discount)


def by_token(advantages: Sequence[Sequence[Sequence[float] | None]], *, dropped: int = 0, zero_variance: int | None = None) -> Credit:
    """Whitened advantages of all members that have some; None stays None."""
    white = iter(whitened([each for members in advantages for each in members if each is not None]))
    members = tuple(tuple(None if each is None else MemberCredit(advantage=next(white)) for each in row) for row in advantages)
    return Credit(members=members, dropped=dropped, zero_variance=zero_variance)


def _repeated(member: Paid | None, credit: MemberCredit | None) -> list[float] | None:
    if member is None or credit is None:
        return None
    assert isinstance(credit.advantage, float)
    return [credit.advantage] * len(member.rewards)
