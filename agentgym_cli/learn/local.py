"""The local engine's trainer: GRPO steps on one model on the CPU. Knows no environment, no schedule of turns and no storage."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.learn.batch import Batch, Example, pieces
from agentgym_cli.learn.grpo import GroupExamples, Member, by_episode, group_examples
from agentgym_cli.learn.losses import policy_loss, reference_kl
from agentgym_cli.learn.update import action_scores, make_optimizer, update
from agentgym_cli.recipe.schema.algorithms import GrpoSpec
from agentgym_cli.recipe.schema.learning import TrainSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What one step did. None is no data, never 0."""

    reward_mean: float | None
    """Over scored members."""
    planned: int
    scored: int
    groups: int
    groups_dropped: int
    groups_zero_variance: int
    without_action_tokens: int
    action_tokens: int
    """Of all trajectories that count, those without an advantage included."""
    updates: int
    loss: float | None
    """Mean of the updates."""
    gradient_norm: float | None
    """Largest of the updates, before clipping."""
    clip_fraction: float | None
    """Share of action tokens whose ratio the clip held back."""
    sampled_kl: float | None
    """k1 estimate of KL(sampled, present policy) over the step, nats per action token."""
    entropy: float | None
    """Nats per action token that was computed."""
    reference_kl: float | None
    """k3 estimate, nats per action token; None without a reference."""
    logprob_difference: float | None
    """Largest |trainer - sampler| log-probability over the action tokens of the first minibatch, before its update."""


@dataclass(slots=True)
class _Sums:
    """What a step adds up over its pieces."""

    tokens: int = 0
    clipped: float = 0.0
    old_minus_new: float = 0.0
    entropy: float = 0.0
    reference: float = 0.0
    difference: float | None = None
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)


class GrpoTrainer:
    """Improves ``model`` from groups of episodes. Keeps the optimizer, and a frozen copy of the model where KL has a weight."""

    def __init__(self, model: CausalModel, spec: TrainSpec, *, temperature: float, seed: int) -> None:
        self.model = model
        self.optimizer = make_optimizer(model, weight_decay=spec.weight_decay, parameters=spec.parameters)
        assert isinstance(spec.algorithm, GrpoSpec), "another algorithm is refused when the recipe is read"
        self._spec, self._algorithm = spec, spec.algorithm
        self._temperature = temperature
        self._seed = seed
        self.reference = copy.deepcopy(model).requires_grad_(False) if self._algorithm.kl_coefficient > 0 else None

    def grpo_step(self, groups: Sequence[Sequence[Member]], *, step: int) -> StepMetrics:
        """Optimizer step ``step`` (first is 1): up to ``updates_per_step`` updates, each on its share of the trajectories.

        Raises TrainerError when a return, a loss or a gradient is not finite.
        """
        found = group_examples(groups, normalize_std=self._algorithm.normalize_std, step=step)
        sums = _Sums()
        for number, examples in enumerate(self._minibatches(found.examples, step)):
            self._update(examples, sums, step=step, number=number)
        if sums.difference is None and found.examples:
            self._compare(found.examples, sums)
        return self._metrics(found, sums)

    def _minibatches(self, examples: Sequence[Example], step: int) -> list[list[Example]]:
        """A split that depends on (seed, step) alone; a minibatch in which nothing has an advantage is left out unless it has other terms."""
        order = sorted(range(len(examples)), key=lambda place: hashlib.sha256(f"{self._seed}\n{step}\n{place}".encode()).digest())
        count = self._spec.updates_per_step
        split = [[examples[place] for place in sorted(order[number::count])] for number in range(count)]
        return [part for part in split if any(self._carries_gradient(example) for example in part)]

    def _carries_gradient(self, example: Example) -> bool:
        algorithm = self._algorithm
        return example.advantage != 0.0 or algorithm.kl_coefficient > 0 or algorithm.entropy_coefficient > 0

    def _update(self, examples: Sequence[Example], sums: _Sums, *, step: int, number: int) -> None:
        # Rows without an advantage change no gradient, so they are counted in the denominator and not computed.
        tokens = sum(sum(example.trajectory.action_mask[1:]) for example in examples)
        weighed = by_episode(examples) if self._algorithm.average == "episode" else examples
        batches = pieces([example for example in weighed if self._carries_gradient(example)])
        made = update(
            self.model,
            self.optimizer,
            batches,
            lambda batch: self._loss(batch, sums, first=number == 0) / tokens,
            learning_rate=learning_rate_at(self._spec, step),
            max_gradient_norm=self._spec.max_gradient_norm,
            where=f"step {step}, update {number + 1}",
        )
        sums.losses.append(made.loss)
        sums.norms.append(made.gradient_norm)

    def _loss(self, batch: Batch, sums: _Sums, *, first: bool) -> Tensor:
        algorithm = self._algorithm
        scores = action_scores(self.model, batch, temperature=self._temperature)
        loss = policy_loss(scores.logp, batch.old_logp, batch.advantage, batch.action_mask, algorithm.clip)
        total = loss.surrogate - algorithm.entropy_coefficient * scores.entropy.sum()
        if self.reference is not None:
            with torch.no_grad():
                frozen = action_scores(self.reference, batch, temperature=self._temperature)
            kl = reference_kl(scores.logp, frozen.logp, batch.action_mask)
            total = total + algorithm.kl_coefficient * kl
            sums.reference += kl.item()
        sums.tokens += batch.action_tokens
        sums.clipped += loss.clipped.item()
        sums.old_minus_new += loss.old_minus_new.item()
        sums.entropy += scores.entropy.detach().sum().item()
        if first:
            sums.difference = max(sums.difference or 0.0, _difference(scores.logp.detach(), batch))
        return total

    @torch.no_grad()
    def _compare(self, examples: Sequence[Example], sums: _Sums) -> None:
        """Compare trainer and sampler on one piece of a step that has nothing to learn."""
        batch = pieces(examples)[0]
        sums.difference = _difference(action_scores(self.model, batch, temperature=self._temperature).logp, batch)

    def _metrics(self, found: GroupExamples, sums: _Sums) -> StepMetrics:
        def per_token(value: float) -> float | None:
            return value / sums.tokens if sums.tokens else None

        return StepMetrics(
            reward_mean=sum(found.rewards) / len(found.rewards) if found.rewards else None,
            planned=found.planned,
            scored=len(found.rewards),
            groups=found.groups,
            groups_dropped=found.groups_dropped,
            groups_zero_variance=found.groups_zero_variance,
            without_action_tokens=found.without_action_tokens,
            action_tokens=sum(sum(example.trajectory.action_mask[1:]) for example in found.examples),
            updates=len(sums.losses),
            loss=sum(sums.losses) / len(sums.losses) if sums.losses else None,
            gradient_norm=max(sums.norms, default=None),
            clip_fraction=per_token(sums.clipped),
            sampled_kl=per_token(sums.old_minus_new),
            entropy=per_token(sums.entropy),
            reference_kl=per_token(sums.reference) if self.reference is not None else None,
            logprob_difference=sums.difference,
        )


def learning_rate_at(spec: TrainSpec, step: int) -> float:
    """Rate of optimizer ``step`` (first is 1); pure, so a resume needs no state."""
    return spec.learning_rate * min(1.0, step / (spec.warmup_steps + 1))


def _difference(logp: Tensor, batch: Batch) -> float:
    return float((logp - batch.old_logp)[batch.action_mask].abs().max())
