"""What the settings of an algorithm exclude: none that another one would leave without any effect is accepted. Reads no file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec, ReinforcePlusPlusSpec, RlooSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.schema.world import RewardSpec
from agentgym_cli.recipe.yaml import KeyPath

Finding = tuple[KeyPath, str]
_AT = ("train", "algorithm")


def algorithm_rules(run: Run) -> Iterator[Finding]:
    """Settings of training that contradict each other or that nothing would read."""
    if run.train is None:
        return
    algorithm = run.train.algorithm
    if not isinstance(algorithm, OnlineSpec):
        yield from _unpaid(run, run.train)
        return
    yield from _kl(algorithm)
    yield from _clips(algorithm)
    if isinstance(algorithm, ReinforcePlusPlusSpec):
        yield from _group_baseline(algorithm)
    if isinstance(algorithm, PpoSpec):
        yield from _critic(algorithm, run.train)
    yield from _credit(run.reward, algorithm)


def _unpaid(run: Run, train: TrainSpec) -> Iterator[Finding]:
    """What is paid by token, and what corrects the sampler, means nothing where nobody is paid by token."""
    why = f"with algorithm {train.algorithm.kind}, which pays no token"
    plain = RewardSpec()
    for name in ("credit", "turn_cost", "invalid_cost", "token_cost"):
        wanted, got = getattr(plain, name), getattr(run.reward, name)
        if got != wanted:
            yield ("reward", name), f"expected {wanted} {why}, got {got}"
    if train.importance_cap is not None:
        yield ("train", "importance_cap"), f"expected null {why}, got {train.importance_cap:g}"


def whole_episodes(algorithm: OnlineSpec) -> bool:
    """Whether all action tokens of an episode get the same advantage, whenever the episode was paid."""
    return isinstance(algorithm, GrpoSpec | RlooSpec) or (isinstance(algorithm, ReinforcePlusPlusSpec) and algorithm.baseline == "group")


def _kl(algorithm: OnlineSpec) -> Iterator[Finding]:
    if algorithm.kl_coefficient > 0:
        return
    defaults = {field.name: field.default for field in fields(algorithm)}
    for name, value in (("kl_place", algorithm.kl_place), ("kl_estimate", algorithm.kl_estimate)):
        if value != defaults[name]:
            yield (*_AT, name), f"expected {defaults[name]} where kl_coefficient is 0 and there is no KL, got {value}"


def _clips(algorithm: OnlineSpec) -> Iterator[Finding]:
    if algorithm.clip_high is not None and algorithm.clip_high < algorithm.clip:
        yield (*_AT, "clip_high"), f"expected at least clip ({algorithm.clip:g}), got {algorithm.clip_high:g}"


def _group_baseline(algorithm: ReinforcePlusPlusSpec) -> Iterator[Finding]:
    if algorithm.baseline != "group":
        return
    if algorithm.group_size < 2:
        yield (*_AT, "group_size"), f"expected 2 or more with baseline group, got {algorithm.group_size}"
    if algorithm.discount != 1:
        yield (*_AT, "discount"), f"expected 1 with baseline group, which knows whole episodes only, got {algorithm.discount:g}"


def _critic(algorithm: PpoSpec, train: TrainSpec) -> Iterator[Finding]:
    if algorithm.critic_warmup_steps >= train.steps:
        yield (
            (*_AT, "critic_warmup_steps"),
            f"expected fewer than the {train.steps} steps, since the policy stays as it is until then, got {algorithm.critic_warmup_steps}",
        )


def _credit(reward: RewardSpec, algorithm: OnlineSpec) -> Iterator[Finding]:
    if reward.credit != "turn":
        return
    if whole_episodes(algorithm):
        with_baseline = " with baseline group" if isinstance(algorithm, ReinforcePlusPlusSpec) else ""
        yield ("reward", "credit"), f"expected episode with algorithm {algorithm.kind}{with_baseline}, which compares whole episodes, got turn"
    elif reward.signal == "success" and not (reward.turn_cost or reward.invalid_cost or reward.token_cost):
        yield ("reward", "credit"), "expected episode where success alone is paid, since it is known at the end, got turn"
