"""Supervised learning on demonstrations (``sft``, and the warm start of every other algorithm): behavioural cloning of action tokens.

    L = - sum_t log p(a_t | what precedes it) / N      over the N action tokens of one update

as the BC of AgentGym (arXiv 2406.04151), but for replies that its files mark as not to be learned, which its trainer learns all the same.
Normalised over the action tokens of the whole update, at temperature 1. Assumes that what a demonstration says is worth saying: nothing is weighed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

from agentgym_cli.episode.policies.sampler import CausalModel
from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.batch import PIECE_TOKENS, Batch, Example, pieces, with_action_tokens
from agentgym_cli.learn.losses import supervised_loss
from agentgym_cli.learn.update import Precision, action_scores, make_optimizer, update

MAX_GRADIENT_NORM = 1.0
Optimizer: TypeAlias = torch.optim.Optimizer


class StoredTrainer(Protocol):
    """What makes updates from stored data; a checkpoint keeps its optimizer."""

    optimizer: Optimizer


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
    """Teaches ``model`` demonstrations."""

    def __init__(
        self,
        model: CausalModel,
        *,
        learning_rate: float,
        max_gradient_norm: float = MAX_GRADIENT_NORM,
        optimizer: Optimizer | None = None,
        name: str = "warm start",
        pass_tokens: int = PIECE_TOKENS,
        precision: Precision = "float32",
    ) -> None:
        """``optimizer``: one of the model's own parameters; None makes AdamW over all of them. ``name``: what errors call a step's part."""
        self._pass_tokens, self._precision = pass_tokens, precision
        self._model = model
        self._learning_rate = learning_rate
        self._max_gradient_norm = max_gradient_norm
        self._name = name
        self.optimizer = optimizer or make_optimizer(model, weight_decay=0.0)

    def supervised_step(self, demonstrations: Sequence[Trajectory], *, step: int, learning_rate: float | None = None) -> SupervisedMetrics:
        """One update, averaged over all action tokens of ``demonstrations``. Raises TrainerError when there are none or a number is not finite.

        Args:
            learning_rate: of this step; None is the trainer's.
        """
        where = f"{self._name} step {step}"
        examples = with_action_tokens([Example(trajectory=demonstration, advantage=0.0) for demonstration in demonstrations])
        batches = pieces(examples, tokens=self._pass_tokens)
        tokens = sum(batch.action_tokens for batch in batches)
        if not tokens:
            raise TrainerError(f"{where}: expected demonstrations with action tokens, got none in {len(demonstrations)}")

        def loss_of(batch: Batch) -> Tensor:
            scores = action_scores(self._model, batch, temperature=1.0, precision=self._precision)
            return supervised_loss(scores.logp, batch.action_mask) / tokens

        made = update(
            self._model,
            self.optimizer,
            batches,
            loss_of,
            learning_rate=self._learning_rate if learning_rate is None else learning_rate,
            max_gradient_norm=self._max_gradient_norm,
            where=where,
        )
        return SupervisedMetrics(
            loss=made.loss,
            gradient_norm=made.gradient_norm,
            action_tokens=tokens,
            without_action_tokens=len(demonstrations) - len(examples),
        )
