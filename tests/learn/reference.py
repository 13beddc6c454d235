"""The online algorithms once more: plain Python, float64, one token at a time, from the formulas in their papers. Imports nothing of ``learn``.

Sums are written out (a return as a double sum, a generalized advantage as a discounted sum of errors, a leave-one-out mean over the others), so that
a mistake in a recursion or in a mask is not made twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec, ReinforcePlusPlusSpec, RlooSpec
from tests.learn.tabular import Table, probabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One sampled token of an episode, and what was paid for it."""

    before: int
    token: int
    sampled: float
    reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a loss depends on beside the policy."""

    spec: OnlineSpec
    temperature: float = 1.0
    cap: float | None = None
    start: Table
    """The policy before the step."""
    reference: Table
    values: Sequence[float]
    """Of the critic before the step, by the token before."""


Episodes = Sequence[Sequence[Sequence[Token] | None]]
"""Groups of members; None is one without a score."""


def logp(table: Table, token: Token, temperature: float) -> float:
    return math.log(probabilities(table, token.before, temperature)[token.token])


def old(setting: Setting, token: Token) -> float:
    return token.sampled if setting.cap is None else logp(setting.start, token, setting.temperature)


def divergence(here: float, there: float, estimate: str) -> float:
    ratio = math.exp(there - here)
    return {"k1": here - there, "k2": (here - there) ** 2 / 2, "k3": ratio - 1 - math.log(ratio)}[estimate]


def rewards(setting: Setting, episode: Sequence[Token]) -> list[float]:
    spec = setting.spec
    if spec.kl_place != "reward" or spec.kl_coefficient == 0:
        return [token.reward for token in episode]
    there = [logp(setting.reference, token, setting.temperature) for token in episode]
    taken = [divergence(old(setting, token), each, spec.kl_estimate) for token, each in zip(episode, there, strict=True)]
    return [token.reward - spec.kl_coefficient * each for token, each in zip(episode, taken, strict=True)]


def advantages(setting: Setting, groups: Episodes) -> list[list[list[float] | None]]:
    """By group, member and token."""
    spec = setting.spec
    paid = [[None if episode is None else rewards(setting, episode) for episode in group] for group in groups]
    if isinstance(spec, GrpoSpec | RlooSpec):
        return [_of_group(spec, group) for group in paid]
    if isinstance(spec, PpoSpec):
        raw = [
            [None if each is None or episode is None else _gae(setting, spec, each, episode) for each, episode in zip(row, group, strict=True)]
            for row, group in zip(paid, groups, strict=True)
        ]
        return _white(raw) if spec.whiten else raw
    if spec.baseline == "group":
        return _white([_centred(group) for group in paid])
    return _white([[None if each is None else _to_go(spec, each) for each in row] for row in paid])


def targets(setting: Setting, groups: Episodes) -> list[list[list[float] | None]]:
    """What the critic is taught, by group, member and token."""
    spec = setting.spec
    assert isinstance(spec, PpoSpec)
    return [
        [
            None
            if episode is None
            else [
                gain + setting.values[token.before]
                for gain, token in zip(_gae(setting, spec, rewards(setting, episode), episode), episode, strict=True)
            ]
            for episode in group
        ]
        for group in groups
    ]


def loss(table: Table, setting: Setting, groups: Episodes) -> float:
    """The whole loss of one update over everything, at the policy ``table``."""
    spec = setting.spec
    found = advantages(setting, groups)
    rows = [
        (episode, gains)
        for group, members in zip(groups, found, strict=True)
        for episode, gains in zip(group, members, strict=True)
        if episode and gains is not None
    ]
    count = sum(len(episode) for episode, _ in rows)
    surrogate = []
    for episode, gains in rows:
        weight = 1 / count if spec.average == "token" else 1 / (len(rows) * len(episode))
        surrogate.append(-weight * math.fsum(_surrogate(table, setting, *pair) for pair in zip(episode, gains, strict=True)))
    tokens = [token for episode, _ in rows for token in episode]
    kl = [divergence(logp(table, each, setting.temperature), logp(setting.reference, each, setting.temperature), spec.kl_estimate) for each in tokens]
    coefficient = spec.kl_coefficient if spec.kl_place == "loss" else 0.0
    entropy = [-math.fsum(p * math.log(p) for p in probabilities(table, each.before, setting.temperature)) for each in tokens]
    return math.fsum(surrogate) + coefficient * math.fsum(kl) / count - spec.entropy_coefficient * math.fsum(entropy) / count


def critic_loss(values: Sequence[float], setting: Setting, groups: Episodes) -> float:
    """Half the squared error per token, at the values ``values``."""
    spec = setting.spec
    assert isinstance(spec, PpoSpec)
    errors = []
    for group, members in zip(groups, targets(setting, groups), strict=True):
        for episode, wanted in zip(group, members, strict=True):
            for token, target in zip(episode or (), wanted or (), strict=True):
                now, before = values[token.before], setting.values[token.before]
                held = now if spec.value_clip is None else min(max(now, before - spec.value_clip), before + spec.value_clip)
                errors.append(max((now - target) ** 2, (held - target) ** 2) / 2)
    return mean(errors)


def _surrogate(table: Table, setting: Setting, token: Token, gain: float) -> float:
    spec = setting.spec
    before = old(setting, token)
    ratio = math.exp(logp(table, token, setting.temperature) - before)
    high = spec.clip if spec.clip_high is None else spec.clip_high
    weight = 1.0 if setting.cap is None else min(math.exp(before - token.sampled), setting.cap)
    return weight * min(ratio * gain, min(max(ratio, 1 - spec.clip), 1 + high) * gain)


def _of_group(spec: GrpoSpec | RlooSpec, group: Sequence[list[float] | None]) -> list[list[float] | None]:
    totals = [None if each is None else math.fsum(each) for each in group]
    scored = [each for each in totals if each is not None]
    if len(scored) < max(2, math.ceil(len(group) / 2)):
        return [None] * len(group)
    if isinstance(spec, GrpoSpec) and spec.filter_zero_variance and len(set(scored)) == 1:
        return [None] * len(group)
    found: list[list[float] | None] = []
    for place, each in enumerate(group):
        total = totals[place]
        if each is None or total is None:
            found.append(None)
            continue
        others = [other for number, other in enumerate(totals) if number != place and other is not None]
        gain = total - mean(others) if isinstance(spec, RlooSpec) else total - mean(scored)
        if isinstance(spec, GrpoSpec) and spec.normalize_std:
            gain /= stdev(scored) + 1e-6
        found.append([gain] * len(each))
    return found


def _centred(group: Sequence[list[float] | None]) -> list[list[float] | None]:
    totals = [math.fsum(each) for each in group if each is not None]
    if len(totals) < max(2, math.ceil(len(group) / 2)):
        return [None] * len(group)
    return [None if each is None else [math.fsum(each) - mean(totals)] * len(each) for each in group]


def _to_go(spec: ReinforcePlusPlusSpec, paid: list[float]) -> list[float]:
    return [math.fsum(spec.discount ** (later - now) * paid[later] for later in range(now, len(paid))) for now in range(len(paid))]


def _gae(setting: Setting, spec: PpoSpec, paid: list[float], episode: Sequence[Token]) -> list[float]:
    values = [*(setting.values[token.before] for token in episode), 0.0]
    errors = [paid[now] + spec.discount * values[now + 1] - values[now] for now in range(len(paid))]
    factor = spec.discount * spec.gae_lambda
    return [math.fsum(factor ** (later - now) * errors[later] for later in range(now, len(paid))) for now in range(len(paid))]


def _white(rows: list[list[list[float] | None]]) -> list[list[list[float] | None]]:
    every = [value for row in rows for each in row for value in each or ()]
    middle, spread = mean(every), stdev(every) if len(every) > 1 else 0.0
    return [[None if each is None else [(value - middle) / (spread + 1e-6) for value in each] for each in row] for row in rows]
