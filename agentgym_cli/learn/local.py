"""The local engine's trainer: steps of any online algorithm on one model. Knows no environment, no schedule of turns and no storage."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.learn.algorithms import algorithm_of
from agentgym_cli.learn.batch import PIECE_TOKENS, Batch, Example, action_count, pieces
from agentgym_cli.learn.checkpoint import Learner
from agentgym_cli.learn.critic import CriticTrainer
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.gather import Judges, by_episode, gather
from agentgym_cli.learn.judge import logps
from agentgym_cli.learn.losses import importance_weight, policy_loss, reference_kl
from agentgym_cli.learn.step_metrics import StepMetrics, Sums, step_metrics
from agentgym_cli.learn.update import Precision, action_scores, device_of, make_optimizer, update
from agentgym_cli.recipe.schema.algorithms import OnlineSpec, PpoSpec
from agentgym_cli.recipe.schema.learning import TrainSpec


class OnlineTrainer:
    """Improves ``model`` from groups of episodes.

    Keeps the optimizer, a frozen copy of the model where KL has a weight, and a critic with its own optimizer where the algorithm has one.
    """

    def __init__(
        self,
        model: CausalModel,
        spec: TrainSpec,
        *,
        temperature: float,
        seed: int,
        pass_tokens: int = PIECE_TOKENS,
        precision: Precision = "float32",
    ) -> None:
        self.model = model
        assert isinstance(spec.algorithm, OnlineSpec), "the others have trainers of their own"
        self._spec, self._rule = spec, spec.algorithm
        self._algorithm = algorithm_of(spec.algorithm)
        self._seed, self._pass_tokens = seed, pass_tokens
        self._scores = partial(action_scores, temperature=temperature, precision=precision)
        self.reference = copy.deepcopy(model).requires_grad_(False) if self._rule.kl_coefficient > 0 else None
        self.critic = CriticTrainer(model, self._rule, pass_tokens=pass_tokens, precision=precision) if isinstance(self._rule, PpoSpec) else None
        self.optimizer = make_optimizer(model, weight_decay=spec.weight_decay, parameters=spec.parameters)
        asked = partial(logps, temperature=temperature, pass_tokens=pass_tokens, precision=precision)
        self._judges = Judges(
            trainer=None if spec.importance_cap is None else partial(asked, model),
            reference=None if self.reference is None else partial(asked, self.reference),
            critic=None if self.critic is None else self.critic.values,
        )

    @property
    def beside(self) -> Mapping[str, Learner]:
        """What else learns, by name, as a checkpoint keeps it."""
        return {} if self.critic is None else {"critic": (self.critic.critic, self.critic.optimizer)}

    def step(self, groups: Sequence[Sequence[Member]], *, step: int) -> StepMetrics:
        """Optimizer step ``step`` (first is 1): ``passes_per_step`` times up to ``updates_per_step`` updates, each on its share of the trajectories.

        Raises TrainerError when a return, a loss or a gradient is not finite.
        """
        found = gather(groups, self._rule, self._algorithm, self._judges, step=step)
        sums = Sums()
        for number in range(self._spec.passes_per_step):
            for part, examples in enumerate(self._minibatches(found.examples, step, number)):
                self._learn(examples, sums, step=step, where=f"step {step}, update {number * self._spec.updates_per_step + part + 1}")
        if sums.difference is None and found.examples:
            self._compare(found.examples, sums)
        in_loss = self.reference is not None and self._rule.kl_place == "loss"
        return step_metrics(found, sums, reference=in_loss, corrected=self._spec.importance_cap is not None)

    def _minibatches(self, examples: Sequence[Example], step: int, number: int = 0) -> list[list[Example]]:
        """A split that depends on (seed, step, number of the pass) alone; parts without a trajectory are left out."""
        again = f"\n{number}" if number else ""
        order = sorted(range(len(examples)), key=lambda place: hashlib.sha256(f"{self._seed}\n{step}\n{place}{again}".encode()).digest())
        count = self._spec.updates_per_step
        split = [[examples[place] for place in sorted(order[part::count])] for part in range(count)]
        return [part for part in split if part]

    def _learn(self, examples: Sequence[Example], sums: Sums, *, step: int, where: str) -> None:
        """One update of the policy, where there is something to learn, and of the critic, where there is one."""
        warming = isinstance(self._rule, PpoSpec) and step <= self._rule.critic_warmup_steps
        if not warming and any(self._carries_gradient(example) for example in examples):
            self._update(examples, sums, step=step, where=where)
        if self.critic is not None:
            sums.critic.append(self.critic.learn(examples, where=where))

    def _carries_gradient(self, example: Example) -> bool:
        rule = self._rule
        flat = example.advantage if isinstance(example.advantage, tuple) else (example.advantage,)
        return any(flat) or (rule.kl_coefficient > 0 and rule.kl_place == "loss") or rule.entropy_coefficient > 0

    def _update(self, examples: Sequence[Example], sums: Sums, *, step: int, where: str) -> None:
        # Rows without an advantage change no gradient, so they are counted in the denominator and not computed.
        tokens = sum(map(action_count, examples))
        weighed = by_episode(examples) if self._rule.average == "episode" else examples
        batches = pieces([example for example in weighed if self._carries_gradient(example)], tokens=self._pass_tokens)
        first = not sums.losses
        made = update(
            self.model,
            self.optimizer,
            batches,
            lambda batch: self._loss(batch, sums, first=first) / tokens,
            learning_rate=learning_rate_at(self._spec, step),
            max_gradient_norm=self._spec.max_gradient_norm,
            where=where,
        )
        sums.losses.append(made.loss)
        sums.norms.append(made.gradient_norm)

    def _loss(self, batch: Batch, sums: Sums, *, first: bool) -> Tensor:
        rule, cap = self._rule, self._spec.importance_cap
        scores = self._scores(self.model, batch)
        weight = None if cap is None else importance_weight(batch.old_logp, batch.sampled_logp, cap=cap)
        loss = policy_loss(scores.logp, batch.old_logp, batch.advantage, batch.action_mask, rule.clip, clip_high=rule.clip_high, weight=weight)
        total = loss.surrogate
        if rule.entropy_coefficient > 0:  # a bonus of weight 0 changes no bit, and costs a way back through every logit
            total = total - rule.entropy_coefficient * scores.entropy.sum()
        if self.reference is not None and rule.kl_place == "loss":
            kl = reference_kl(scores.logp, batch.reference_logp, batch.action_mask, rule.kl_estimate)
            total = total + rule.kl_coefficient * kl
            sums.reference += kl.item()
        sums.tokens += batch.action_tokens
        sums.clipped += loss.clipped.item()
        sums.old_minus_new += loss.old_minus_new.item()
        sums.entropy += scores.entropy.detach().sum().item()
        sums.weight += 0.0 if weight is None else weight[batch.action_mask].sum().item()
        if first:
            sums.difference = max(sums.difference or 0.0, _difference(scores.logp.detach(), batch))
        return total

    @torch.no_grad()
    def _compare(self, examples: Sequence[Example], sums: Sums) -> None:
        """Compare trainer and sampler on one piece of a step that has nothing to learn."""
        batch = pieces(examples, tokens=self._pass_tokens)[0].to(device_of(self.model))
        sums.difference = _difference(self._scores(self.model, batch).logp, batch)


def learning_rate_at(spec: TrainSpec, step: int) -> float:
    """Rate of optimizer ``step`` (first is 1); pure, so a resume needs no state."""
    return spec.learning_rate * min(1.0, step / (spec.warmup_steps + 1))


def _difference(logp: Tensor, batch: Batch) -> float:
    return float((logp - batch.sampled_logp)[batch.action_mask].abs().max())
