"""Losses over action tokens, as sums that minibatch pieces add up to. Math returns numbers; it does not log."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """Sums over action tokens; divide by the action tokens of the whole minibatch."""

    surrogate: Tensor
    """Scalar with gradient: the clipped surrogate, negated."""
    clipped: Tensor
    """Scalar without gradient: tokens whose ratio the clip holds back."""
    old_minus_new: Tensor
    """Scalar without gradient: sum of old - new log-probability, the k1 estimate of KL(old, new) in nats."""


def policy_loss(new_logp: Tensor, old_logp: Tensor, advantage: Tensor, action_mask: Tensor, clip: float) -> PolicyLoss:
    """Clipped surrogate of PPO (arXiv 1707.06347, equation 7), summed over action tokens.

    Args:
        new_logp, old_logp: log-probabilities in nats, float32, shape (B, T).
        advantage: shape (B, T); ignored where ``action_mask`` is False.
        action_mask: bool, shape (B, T).
        clip: half-width of the trust region on the ratio, 0 < clip < 1.
    """
    new, old, gain = new_logp[action_mask], old_logp[action_mask], advantage[action_mask]
    ratio = torch.exp(new - old)
    free = ratio * gain
    held = ratio.clamp(1 - clip, 1 + clip) * gain
    with torch.no_grad():
        clipped = (held < free).sum()
        old_minus_new = (old - new).sum()
    return PolicyLoss(surrogate=-torch.minimum(free, held).sum(), clipped=clipped, old_minus_new=old_minus_new)


def reference_kl(new_logp: Tensor, reference_logp: Tensor, action_mask: Tensor) -> Tensor:
    """k3 estimate of KL(new, reference), exp(d) - d - 1 with d = reference - new, summed over action tokens; scalar, nats.

    Source: DeepSeekMath, arXiv 2402.03300, equation 4. Arguments as in ``policy_loss``.
    """
    difference = (reference_logp - new_logp)[action_mask]
    return (torch.exp(difference) - difference - 1).sum()


def supervised_loss(new_logp: Tensor, action_mask: Tensor) -> Tensor:
    """Negative log-likelihood of demonstrated action tokens, summed; scalar, nats. Arguments as in ``policy_loss``."""
    return -new_logp[action_mask].sum()
