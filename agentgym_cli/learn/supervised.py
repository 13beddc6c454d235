"""Supervised learning on demonstrations (the warm start): negative log-likelihood of action tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.batch import Batch, Example, pieces, with_action_tokens
from agentgym_cli.learn.losses import supervised_loss
from agentgym_cli.learn.update import action_scores, make_optimizer, update

MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedMetrics:
    """What one supervised update did."""

    loss: float
    """Mean negative log-likelihood of an action token before the update, nats."""
    gradient_norm: float
    """Before clipping."""
    action_tokens: int
    without_action_tokens: int
    """Demonstrations left out because they have none."""


class SupervisedTrainer:
    """Teaches ``model`` demonstrations at a constant learning rate, temperature 1."""

    def __init__(self, model: CausalModel, *, learning_rate: float) -> None:
        self._model = model
        self._learning_rate = learning_rate
        self._optimizer = make_optimizer(model, weight_decay=0.0)

    def supervised_step(self, demonstrations: Sequence[Trajectory], *, step: int) -> SupervisedMetrics:
        """One update, averaged over all action tokens of ``demonstrations``. Raises TrainerError when there are none or a number is not finite."""
        where = f"warm start step {step}"
        examples = with_action_tokens([Example(trajectory=demonstration, advantage=0.0) for demonstration in demonstrations])
        batches = pieces(examples)
        tokens = sum(batch.action_tokens for batch in batches)
        if not tokens:
            raise TrainerError(f"{where}: expected demonstrations with action tokens, got none in {len(demonstrations)}")

        def loss_of(batch: Batch) -> Tensor:
            return supervised_loss(action_scores(self._model, batch, temperature=1.0).logp, batch.action_mask) / tokens

        made = update(
            self._model,
            self._optimizer,
            batches,
            loss_of,
            learning_rate=self._learning_rate,
            max_gradient_norm=MAX_GRADIENT_NORM,
            where=where,
        )
        return SupervisedMetrics(
            loss=made.loss,
            gradient_norm=made.gradient_norm,
            action_tokens=tokens,
            without_action_tokens=len(demonstrations) - len(examples),
        )
