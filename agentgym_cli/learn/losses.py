"""Losses over action tokens, as sums that minibatch pieces add up to. Math returns numbers; it does not log."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentgym_cli.recipe.schema.algorithms import KlEstimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyLoss:
    """Sums over action tokens; divide by the action tokens of the whole minibatch."""

    surrogate: Tensor
    """Scalar with gradient: the clipped surrogate, negated."""
    clipped: Tensor
    """Scalar without gradient: tokens whose ratio the clip holds back."""
    old_minus_new: Tensor
    """Scalar without gradient: sum of old - new log-probability, the k1 estimate of KL(old, new) in nats."""


def policy_loss(
    new_logp: Tensor,
    old_logp: Tensor,
    advantage: Tensor,
    action_mask: Tensor,
    clip: float,
    *,
    clip_high: float | None = None,
    weight: Tensor | None = None,
) -> PolicyLoss:
    """Clipped surrogate of PPO (arXiv 1707.06347, equation 7), summed over action tokens.

    Args:
        new_logp, old_logp: log-probabilities in nats, float32, shape (B, T).
        advantage: shape (B, T); ignored where ``action_mask`` is False.
        action_mask: bool, shape (B, T).
        clip: half-width of the trust region on the ratio, 0 < clip < 1.
        clip_high: how far the ratio may rise; None is ``clip``.
        weight: factor on each token's surrogate, without gradient, shape (B, T); None is 1.
    """
    new, old, gain = new_logp[action_mask], old_logp[action_mask], advantage[action_mask]
    ratio = torch.exp(new - old)
    free = ratio * gain
    held = ratio.clamp(1 - clip, 1 + (clip if clip_high is None else clip_high)) * gain
    least = torch.minimum(free, held)
    with torch.no_grad():
        clipped = (held < free).sum()
        old_minus_new = (old - new).sum()
    weighed = least if weight is None else least * weight[action_mask]
    return PolicyLoss(surrogate=-weighed.sum(), clipped=clipped, old_minus_new=old_minus_new)


def importance_weight(old_logp: Tensor, sampled_logp: Tensor, *, cap: float) -> Tensor:
    """min(p_trainer / p_sampler, cap) of each token, for a sampler that is not quite the policy that ratios are taken to; shape as given.

    Source: Yao et al., "On the Rollout-Training Mismatch in Modern RL Systems", 2025; truncation is Ionides', 2008. Without gradient.
    """
    return torch.exp(old_logp - sampled_logp).clamp(max=cap).detach()


def reference_kl(new_logp: Tensor, reference_logp: Tensor, action_mask: Tensor, estimate: KlEstimate = "k3") -> Tensor:
    """An estimate of KL(new, reference), summed over action tokens; scalar, nats. With d = reference - new: k1 -d, k2 d^2 / 2, k3 exp(d) - d - 1.

    Sources: k3 is DeepSeekMath's, arXiv 2402.03300, equation 4; the three are Schulman's, "Approximating KL divergence". Arguments as in
    ``policy_loss``.
    """
    difference = (reference_logp - new_logp)[action_mask]
    if estimate == "k1":
        return -difference.sum()
    return ((difference**2) / 2).sum() if estimate == "k2" else (torch.exp(difference) - difference - 1).sum()


def value_loss(values: Tensor, old_values: Tensor, targets: Tensor, action_mask: Tensor, clip: float | None) -> Tensor:
    """Half the squared error of a critic, summed over action tokens; scalar.

    Args:
        values, old_values, targets: shape (B, T); ``old_values`` are the critic's before the step.
        clip: how far a value may move from ``old_values`` before moving on stops paying; the larger of both errors counts. None has no such limit.
    """
    new, old, wanted = values[action_mask], old_values[action_mask], targets[action_mask]
    error = (new - wanted) ** 2
    if clip is not None:
        error = torch.maximum(error, (old + (new - old).clamp(-clip, clip) - wanted) ** 2)
    return error.sum() / 2


def supervised_loss(new_logp: Tensor, action_mask: Tensor) -> Tensor:
    """Negative log-likelihood of demonstrated action tokens, summed; scalar, nats. Arguments as in ``policy_loss``."""
    return -new_logp[action_mask].sum()
