"""Rules about learning: groups, updates, and what the reward rewards."""

from __future__ import annotations

from statistics import median, variance

from agentgym_cli.report import phrases
from agentgym_cli.report.accounting import share
from agentgym_cli.report.figures import Rate
from agentgym_cli.report.signals import Series, Signals, mean, thirds
from agentgym_cli.report.verdict import Verdict, nothing

MOST_ZERO_VARIANCE = 0.5
MOST_DROPPED = 0.05
LEAST_ENTROPY = 0.2
"""Of the first third's."""
MOST_KL = 0.1
MOST_CLIPPED = 0.3
MOST_GRADIENT = 10.0
"""Times the median."""
MOST_LOGP_DIFFERENCE = 0.1
"""Nats; half precision on both sides stays below a few hundredths for most tokens."""
MOST_OLD_TOKENS = 0.1
MOST_AGE = 1
LEAST_VERIFIED_RISE = 0.02
STANDARD_ERRORS = 2.0

_FEW = "fewer than nine steps with a value"


def zero_variance(signals: Signals) -> Verdict:
    """Groups that teach nothing, where groups are baselines."""
    if signals.metrics.get("groups_planned") and not signals.metrics.get("groups_zero_variance"):
        return nothing("groups are no baselines")
    return _groups(signals, "groups_zero_variance", MOST_ZERO_VARIANCE, "have no variance")


def dropped_groups(signals: Signals) -> Verdict:
    """Groups that came to nothing."""
    return _groups(signals, "groups_dropped", MOST_DROPPED, "were dropped")


def _groups(signals: Signals, name: str, most: float, what: str) -> Verdict:
    planned = round(sum(value for _, value in signals.metrics.get("groups_planned", ())))
    rate = share(round(sum(value for _, value in signals.metrics.get(name, ()))), planned)
    if rate.value is None:
        return nothing("no groups were planned")
    return Verdict(fired=rate.value > most, said=f"{_shown(rate)} groups {what}")


def entropy(signals: Signals) -> Verdict:
    """A policy that stops exploring."""
    parts = thirds(signals.metrics.get("entropy", ()))
    if parts is None:
        return nothing(_FEW)
    first, last = map(mean, parts)
    return Verdict(fired=last < LEAST_ENTROPY * first, said=f"{phrases.number(first)} nats in the first third, {phrases.number(last)} in the last")


def kl(signals: Signals) -> Verdict:
    """Steps that go too far."""
    return _above(signals.metrics.get("approx_kl", ()), MOST_KL, "nats a token")


def logp_difference(signals: Signals) -> Verdict:
    """Two programs that disagree on the same tokens."""
    return _above(signals.metrics.get("logp_difference_max", ()), MOST_LOGP_DIFFERENCE, "nats")


def _above(values: Series, most: float, unit: str) -> Verdict:
    if not values:
        return nothing("not measured")
    step, highest = max(values, key=lambda pair: pair[1])
    over = sum(value > most for _, value in values)
    return Verdict(
        fired=highest > most, said=f"at most {phrases.number(highest)} {unit}, at step {step}; above {most:g} at {over} of {len(values)} steps"
    )


def still_clipping(signals: Signals) -> Verdict:
    """Updates of which most is thrown away."""
    parts = thirds(signals.metrics.get("clip_fraction", ()))
    if parts is None:
        return nothing(_FEW)
    last = mean(parts[1])
    return Verdict(fired=last > MOST_CLIPPED, said=f"{phrases.percent(last)} in the last third, {phrases.percent(mean(parts[0]))} in the first")


def gradient_norm(signals: Signals) -> Verdict:
    """One step that outweighs many."""
    values = signals.metrics.get("gradient_norm", ())
    if len(values) < 3:
        return nothing("fewer than three steps with a value")
    step, highest = max(values, key=lambda pair: pair[1])
    usual = median(value for _, value in values)
    return Verdict(
        fired=highest > MOST_GRADIENT * usual, said=f"at most {phrases.number(highest)}, at step {step}; the median is {phrases.number(usual)}"
    )


def policy_age(signals: Signals) -> Verdict:
    """Tokens of weights that are no longer there."""
    old = share(sum(row.tokens for row in signals.ages if row.age > MOST_AGE), sum(row.tokens for row in signals.ages))
    if old.value is None:
        return nothing("no tokens of training with a known version of the weights")
    oldest = max(row.age for row in signals.ages)
    return Verdict(fired=old.value > MOST_OLD_TOKENS, said=f"{_shown(old)} tokens are more than one step old; the oldest {oldest} steps")


def reward_without_verifier(signals: Signals) -> Verdict:
    """A reward that rises while the task is not solved more often."""
    verified = [row for row in signals.verdicts if row.by_verifier and row.rewards and row.scored]
    rewards = thirds([(row.step, row.reward_sum / row.rewards) for row in verified])
    passes = thirds([(row.step, float(share(row.success, row.scored).value or 0.0)) for row in verified])
    if rewards is None or passes is None:
        return nothing("fewer than nine steps whose outcomes a verifier decided")
    risen, passed = _rise(rewards), _rise(passes)
    spread = (sum(variance([value for _, value in part]) / len(part) for part in rewards)) ** 0.5
    return Verdict(
        fired=risen > STANDARD_ERRORS * spread and passed < LEAST_VERIFIED_RISE,
        said=f"mean reward {risen:+.3g} (standard error {spread:.2g}), verifier {100 * passed:+.1f} points, from the first third to the last",
    )


def _rise(parts: tuple[Series, Series]) -> float:
    return mean(parts[1]) - mean(parts[0])


def _shown(rate: Rate) -> str:
    return f"{phrases.percent(rate.value)} ({phrases.of(rate)})"
