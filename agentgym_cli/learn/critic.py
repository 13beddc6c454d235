"""A critic: the policy's architecture with one number in place of a vocabulary. Says what is still to be paid before each action token."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.learn.batch import Batch, Example, action_count, pieces
from agentgym_cli.learn.judge import by_example
from agentgym_cli.learn.losses import value_loss
from agentgym_cli.learn.update import Precision, Update, hidden_before, make_optimizer, update
from agentgym_cli.recipe.schema.algorithms import PpoSpec


class Critic(nn.Module):
    """A copy of the policy's body with a linear head that starts at 0: before it has learned, it expects nothing."""

    def __init__(self, model: CausalModel) -> None:
        super().__init__()
        self.body = copy.deepcopy(model.model)
        self.head = nn.Linear(model.lm_head.weight.shape[1], 1, device=model.lm_head.weight.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: Batch, precision: Precision = "float32") -> Tensor:
        """Values, float32, (B, T): at an action token what is expected before it is sampled; 0 elsewhere."""
        values = self.head(hidden_before(self.body, batch, precision=precision))[:, 0]
        return torch.zeros(batch.token_ids.shape, device=values.device).masked_scatter(batch.action_mask, values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticUpdate:
    """What one update of the critic did."""

    made: Update
    """Its loss is half the squared error per action token."""
    tokens: int


class CriticTrainer:
    """A critic and its own AdamW."""

    def __init__(self, model: CausalModel, spec: PpoSpec, *, pass_tokens: int, precision: Precision) -> None:
        self.critic = Critic(model)
        self.optimizer = make_optimizer(self.critic, weight_decay=spec.critic_weight_decay, head=self.critic.head)
        self._spec, self._pass_tokens, self._precision = spec, pass_tokens, precision

    @torch.no_grad()
    def values(self, examples: Sequence[Example]) -> list[tuple[float, ...]]:
        """What the critic expects before each action token of each example."""
        return by_example(self.critic, examples, self._values, pass_tokens=self._pass_tokens)

    def learn(self, examples: Sequence[Example], *, where: str) -> CriticUpdate:
        """One update towards the examples' targets, averaged over action tokens. Raises TrainerError when a number is not finite."""
        tokens = sum(map(action_count, examples))
        made = update(
            self.critic,
            self.optimizer,
            pieces(examples, tokens=self._pass_tokens),
            lambda batch: value_loss(self._values(batch), batch.values, batch.targets, batch.action_mask, self._spec.value_clip) / tokens,
            learning_rate=self._spec.critic_learning_rate,
            max_gradient_norm=self._spec.critic_max_gradient_norm,
            where=f"{where}, critic",
        )
        return CriticUpdate(made=made, tokens=tokens)

    def _values(self, batch: Batch) -> Tensor:
        values: Tensor = self.critic(batch, self._precision)
        return values
