"""Proximal policy optimization with a critic.

Schulman et al., arXiv 1707.06347, with generalized advantage estimation, arXiv 1506.02438:

    A_t = d_t + discount * lambda * A_(t + 1),    d_t = r_t + discount * V_(t + 1) - V_t      over the action tokens of an episode
    R_t = A_t + V_t                                                                           what the critic is taught
    L   = - sum_t min(w_t A'_t, clip(w_t, 1 - e, 1 + e') A'_t) / N  +  beta * KL  -  gamma * H
    L_V = sum_t max((v_t - R_t)^2, (V_t + clip(v_t - V_t, -c, c) - R_t)^2) / 2N

V is the critic before the step, v while it learns; A' is A whitened over the action tokens of the step (std unbiased), or A itself; w, N, KL and H
as in GRPO. V_t is read where the policy reads what it samples token t from: behind everything that precedes it.

Assumes that the value behind the last action token is 0: a horizon belongs to the task, so an episode that it cuts is over. Observations are no
steps: from the last token of a turn the recursion goes on to the first of the next one, and no value of an observation is used or taught.
"""

from __future__ import annotations

from agentgym_cli.learn.advantages import generalized_advantages, whitened
from agentgym_cli.learn.experience import Credit, Groups, MemberCredit, Paid
from agentgym_cli.recipe.schema.algorithms import PpoSpec


class Ppo:
    """The advantages of PPO and the targets of its critic."""

    def __init__(self, spec: PpoSpec) -> None:
        self._spec = spec

    def credit(self, groups: Groups) -> Credit:
        """One advantage and one target for each action token of each scored episode."""
        raw = [[None if member is None else self._advantages(member) for member in members] for members in groups]
        scored = [each for row in raw for each in row if each is not None]
        final = iter(whitened(scored) if self._spec.whiten else map(tuple, scored))
        return Credit(
            members=tuple(
                tuple(
                    None if member is None or each is None else MemberCredit(advantage=next(final), targets=_targets(each, member))
                    for member, each in zip(members, row, strict=True)
                )
                for members, row in zip(groups, raw, strict=True)
            )
        )

    def _advantages(self, member: Paid) -> list[float]:
        return generalized_advantages(member.rewards, member.values, discount=self._spec.discount, gae_lambda=self._spec.gae_lambda)


def _targets(advantages: list[float], member: Paid) -> tuple[float, ...]:
    return tuple(advantage + value for advantage, value in zip(advantages, member.values, strict=True))
