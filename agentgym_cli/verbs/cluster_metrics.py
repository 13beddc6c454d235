"""What verl calls the numbers of a step, in the words of the store. Everything else keeps verl's own name."""

from __future__ import annotations

from collections.abc import Mapping

NAMES = {
    "actor/pg_loss": "loss",
    "actor/grad_norm": "gradient_norm",
    "actor/pg_clipfrac": "clip_fraction",
    "actor/ppo_kl": "approx_kl",
    "actor/kl_loss": "reference_kl",
    "actor/entropy": "entropy",
    "critic/score/mean": "reward_mean",
    "critic/vf_loss": "critic_loss",
    "critic/grad_norm": "critic_gradient_norm",
    "critic/vf_explained_var": "explained_variance",
    "agentgym/logp_difference_max": "logp_difference_max",
    "agentgym/trajectories": "trajectories",
    "agentgym/padding": "padding_rows",
    "agentgym/policy_age_max": "policy_age_max",
    "agentgym/policy_age_mean": "policy_age_mean",
    "rollout_corr/rollout_is_mean": "importance_weight",
    "timing_s/step": "time/step_seconds",
    "timing_s/gen": "time/play_seconds",
}
"""verl's name and ours."""
_TIMES = ("timing_s/", "timing_per_token_ms/", "perf/")


SFT_NAMES = {
    "loss": "loss",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "action_tokens": "action_tokens",
    "step_seconds": "time/step_seconds",
    "mfu": "time/verl/mfu",
}
"""The same of the supervised trainer, and of what is measured beside it."""
_SAID_OTHERWISE = ("demonstrations", "lr")
"""Compared with what was planned and not kept; verl's rate is the next update's."""


def sft_metrics(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """The same of an update on demonstrations."""
    return {SFT_NAMES.get(name) or _name(name): value for name, value in values.items() if name not in _SAID_OTHERWISE}


def step_metrics(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """A step's numbers under the names that reports read; others as ``verl/NAME``, times as ``time/verl/NAME``, since no digest may have them."""
    return {_name(name): value for name, value in values.items()}


def _name(name: str) -> str:
    if name in NAMES:
        return NAMES[name]
    return f"time/verl/{name}" if name.startswith(_TIMES) else f"verl/{name}"
