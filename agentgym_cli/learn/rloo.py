"""REINFORCE with a leave-one-out baseline.

Ahmadian et al., arXiv 2402.14740, equation 7 (the estimator of Kool et al. 2019):

    A_i = r_i - mean(r_j, j != i)      over the scored members of a group
    L   = - sum_t min(w_t A, clip(w_t, 1 - e, 1 + e') A) / N  +  beta * KL  -  gamma * H

with the terms of GRPO; at a ratio of 1 the gradient is the paper's A * grad log p. No division by a spread, so the scale of rewards is the scale of
the gradient. The paper takes KL off the return (``kl_place: reward``, estimate k1); ``loss`` adds it to the loss.

Assumes one return per episode, the same advantage for all its action tokens, no discount, and members that are independent given their task: then
the baseline brings no bias.
"""

from __future__ import annotations

from agentgym_cli.learn.advantages import leave_one_out
from agentgym_cli.learn.experience import Credit, Groups
from agentgym_cli.learn.grpo import credit_groups


class Rloo:
    """The advantages of RLOO."""

    def credit(self, groups: Groups) -> Credit:
        """One advantage for each episode of a group that is kept."""
        return credit_groups(groups, leave_one_out)
