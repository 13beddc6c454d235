"""Group relative policy optimization.

DeepSeekMath, arXiv 2402.03300, section 4.1, in the outcome-supervised form that ScalingInter-RL (arXiv 2509.08755) uses over whole episodes:

    A_i = (r_i - mean(r)) / (std(r) + 1e-6)      over the scored members of a group, std unbiased
    L   = - sum_t min(w_t A, clip(w_t, 1 - e, 1 + e') A) / N  +  beta * KL  -  gamma * H

with w_t the ratio of new to sampled probability, N the action tokens of the whole minibatch, KL the estimate of the divergence from the frozen
reference (k3 in the paper) and H the entropy, each averaged over the same tokens; e' = e unless ``clip_high`` says otherwise. ``average: episode``
(the paper's 1/|o_i|) takes the surrogate's mean over each episode's tokens first; KL and H stay means over all tokens. ``normalize_std: false`` is
A_i = r_i - mean(r) (Dr. GRPO, arXiv 2503.20783); clip-higher and the filter of groups without spread are DAPO's (arXiv 2503.14476).

Assumes one return per episode, the same advantage for all its action tokens, and no discount. A member whose world failed has no return: it is
neither in the baseline nor in the gradient. A group without spread gives no gradient but for the two last terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentgym_cli.learn.advantages import GroupAdvantages, group_advantages
from agentgym_cli.learn.experience import Credit, Groups, MemberCredit
from agentgym_cli.recipe.schema.algorithms import GrpoSpec


class Grpo:
    """The advantages of GRPO."""

    def __init__(self, spec: GrpoSpec) -> None:
        self._spec = spec

    def credit(self, groups: Groups) -> Credit:
        """One advantage for each episode of a group that is kept."""
        spec = self._spec
        return credit_groups(groups, lambda rewards: group_advantages(rewards, normalize_std=spec.normalize_std), filtered=spec.filter_zero_variance)


def credit_groups(groups: Groups, rule: Callable[[Sequence[float | None]], GroupAdvantages], *, filtered: bool = False) -> Credit:
    """``rule`` on the returns of each group; ``filtered`` leaves groups without spread out altogether."""
    found = [rule([None if member is None else member.total for member in members]) for members in groups]
    return Credit(
        members=tuple(_credits(group, left_out=filtered and group.zero_variance) for group in found),
        dropped=sum(group.dropped for group in found),
        zero_variance=sum(group.zero_variance for group in found),
    )


def _credits(group: GroupAdvantages, *, left_out: bool) -> tuple[MemberCredit | None, ...]:
    return tuple(None if value is None or left_out else MemberCredit(advantage=value) for value in group.values)
