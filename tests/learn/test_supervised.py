"""Supervised learning on demonstrations, by hand."""

from __future__ import annotations

import pytest

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.supervised import SupervisedTrainer
from tests.learn.models import logp_by_hand, tiny_model, trajectory

pytestmark = pytest.mark.torch

SHOWN = [trajectory("ooaaoa"), trajectory("oaa", offset=2), trajectory("ooooaoaaa", offset=4)]


def test_the_loss_is_the_mean_over_action_tokens_of_the_whole_batch():
    model = tiny_model()
    by_hand = [value for item in SHOWN for value in logp_by_hand(model, item)]
    metrics = SupervisedTrainer(model, learning_rate=1e-3).supervised_step(SHOWN, step=1)
    assert metrics.loss == pytest.approx(-sum(by_hand) / len(by_hand), rel=1e-5)
    assert metrics.action_tokens == len(by_hand) == 9


def test_demonstrations_are_learned():
    model = tiny_model()
    trainer = SupervisedTrainer(model, learning_rate=1e-2)
    losses = [trainer.supervised_step(SHOWN, step=step).loss for step in range(1, 41)]
    assert losses[-1] < 0.05 < losses[0]


def test_a_demonstration_without_actions_is_left_out_and_counted():
    metrics = SupervisedTrainer(tiny_model(), learning_rate=1e-3).supervised_step([*SHOWN, trajectory("ooo")], step=1)
    assert (metrics.without_action_tokens, metrics.action_tokens) == (1, 9)


def test_nothing_to_learn_is_an_error_that_names_the_step():
    with pytest.raises(TrainerError, match="warm start step 4: expected demonstrations with action tokens"):
        SupervisedTrainer(tiny_model(), learning_rate=1e-3).supervised_step([trajectory("oo")], step=4)
