"""From the episodes of a step to what is learned from them: judged, paid, credited, and what was left out counted. Knows no tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.batch import Example, action_count, with_action_tokens
from agentgym_cli.learn.experience import Algorithm, Credit, Groups, Member, Paid, PerToken, token_rewards
from agentgym_cli.learn.rewards import less_kl, token_kl
from agentgym_cli.recipe.schema.algorithms import OnlineSpec

Judge = Callable[[Sequence[Example]], list[PerToken]]
"""Says one number for each action token of each example."""
Place = tuple[int, int]
"""Group and member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """Networks that are asked once, before the step changes anything; None where there is none."""

    trainer: Judge | None = None
    """Log-probabilities of the policy as the trainer computes them."""
    reference: Judge | None = None
    """Log-probabilities of the frozen reference."""
    critic: Judge | None = None
    """Values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What a step's groups give to learn from, and what was left out and why."""

    examples: tuple[Example, ...]
    rewards: tuple[float, ...]
    """Returns of all scored members."""
    planned: int
    groups: int
    groups_dropped: int
    groups_zero_variance: int | None
    without_action_tokens: int
    kl: float | None
    """Mean per action token of what was taken off rewards, before its coefficient; None where nothing is."""


def gather(groups: Sequence[Sequence[Member]], spec: OnlineSpec, algorithm: Algorithm, judges: Judges, *, step: int) -> Gathered:
    """Examples of all members that ``algorithm`` gives credit. Raises TrainerError on a return that is no finite number."""
    _require_finite(groups, step)
    judged = _judged(groups, judges)
    paid, kl = _paid(groups, judged, spec)
    credit = algorithm.credit(paid)
    examples = tuple(_examples(judged, credit))
    counting = sum(member is not None for members in credit.members for member in members)
    return Gathered(
        examples=examples,
        rewards=tuple(member.reward for members in groups for member in members if member.reward is not None),
        planned=sum(map(len, groups)),
        groups=len(groups),
        groups_dropped=credit.dropped,
        groups_zero_variance=credit.zero_variance,
        without_action_tokens=counting - len(examples),
        kl=kl,
    )


def by_episode(examples: Sequence[Example]) -> list[Example]:
    """Advantages scaled so that the mean over all action tokens is the mean over episodes of the mean over each one's action tokens.

    Clipping commutes with a positive factor. Failures are long and successes short: over tokens alone, the push away from what failed outweighs
    the pull to what succeeded, and everything common to both is unlearned.
    """
    counts = [action_count(example) for example in examples]
    mean = sum(counts) / len(counts) if counts else 0.0
    return [replace(example, advantage=_scaled(example.advantage, mean / count)) for example, count in zip(examples, counts, strict=True)]


def _scaled(advantage: float | PerToken, factor: float) -> float | PerToken:
    return tuple(each * factor for each in advantage) if isinstance(advantage, tuple) else advantage * factor


def _require_finite(groups: Sequence[Sequence[Member]], step: int) -> None:
    for member in (member for members in groups for member in members if member.reward is not None):
        for amount in (member.reward, *(amount for _, amount in member.payments or ())):
            if amount is not None and not math.isfinite(amount):
                raise TrainerError(f"step {step}: expected finite returns, got {amount}", hint="agentgym probe RECIPE checks what the world answers")


def _judged(groups: Sequence[Sequence[Member]], judges: Judges) -> dict[Place, Example]:
    """Scored members with action tokens, and what networks say of them before the step."""
    found = {
        (number, place): Example(trajectory=member.trajectory, advantage=0.0)
        for number, members in enumerate(groups)
        for place, member in enumerate(members)
        if member.reward is not None and member.trajectory is not None
    }
    found = {at: example for at, example in found.items() if with_action_tokens([example])}
    examples = list(found.values())
    if not examples:
        return {}
    if judges.trainer is not None:
        examples = [replace(example, old_logp=logp) for example, logp in zip(examples, judges.trainer(examples), strict=True)]
    if judges.reference is not None:
        examples = [replace(example, reference_logp=logp) for example, logp in zip(examples, judges.reference(examples), strict=True)]
    if judges.critic is not None:
        examples = [replace(example, values=values) for example, values in zip(examples, judges.critic(examples), strict=True)]
    return dict(zip(found, examples, strict=True))


def _paid(groups: Sequence[Sequence[Member]], judged: dict[Place, Example], spec: OnlineSpec) -> tuple[Groups, float | None]:
    """What each scored member was paid, and the mean KL that was taken off."""
    taken: list[float] = []

    def one(at: Place, member: Member) -> Paid | None:
        if member.reward is None:
            return None
        rewards, example = token_rewards(member), judged.get(at)
        if example is None or example.reference_logp is None or spec.kl_place != "reward":
            return Paid(total=member.reward, rewards=rewards, values=(example and example.values) or ())
        policy = _old(example)
        taken.extend(token_kl(policy, example.reference_logp, estimate=spec.kl_estimate))
        less = less_kl(rewards, policy, example.reference_logp, coefficient=spec.kl_coefficient, estimate=spec.kl_estimate)
        return Paid(total=member.reward + math.fsum(less) - math.fsum(rewards), rewards=less, values=example.values or ())

    paid = [[one((number, place), member) for place, member in enumerate(members)] for number, members in enumerate(groups)]
    return paid, math.fsum(taken) / len(taken) if taken else None


def _old(example: Example) -> PerToken:
    """Log-probabilities that the step starts from."""
    if example.old_logp is not None:
        return example.old_logp
    item = example.trajectory
    return tuple(logp for logp, sampled in zip(item.logprobs[1:], item.action_mask[1:], strict=True) if sampled)


def _examples(judged: dict[Place, Example], credit: Credit) -> list[Example]:
    examples = []
    for (group, place), example in judged.items():
        given = credit.members[group][place]
        if given is not None:
            examples.append(replace(example, advantage=given.advantage, targets=given.targets or None))
    return examples
