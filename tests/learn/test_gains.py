"""Training gains alone, and the warm-up of the learning rate."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.local import OnlineTrainer, learning_rate_at
from agentgym_cli.learn.supervised import SupervisedTrainer
from tests.learn.models import tiny_model, train_spec, trajectory, weights_of

pytestmark = pytest.mark.torch


def make_group() -> list[Member]:
    return [Member(reward=reward, trajectory=trajectory("ooaaoa", offset=place)) for place, reward in enumerate((1.0, 0.0, 0.0, 1.0))]


def test_gains_moves_the_vectors_and_nothing_else():
    model = tiny_model()
    before = weights_of(model)
    OnlineTrainer(model, replace(train_spec(), parameters="gains"), temperature=1.0, seed=1).step([make_group()], step=1)
    moved = {name for name, value in weights_of(model).items() if not torch.equal(value, before[name])}
    assert moved
    assert all(name.endswith(("norm.weight", ".bias")) for name in moved)


def test_gradients_left_by_the_warm_start_on_frozen_weights_do_not_count_in_the_norm():
    alone, after = tiny_model(), tiny_model()
    spec = replace(train_spec(), parameters="gains")
    SupervisedTrainer(after, learning_rate=1e-12).supervised_step([trajectory("oaaa")], step=1)
    expected = OnlineTrainer(alone, spec, temperature=1.0, seed=1).step([make_group()], step=1)
    found = OnlineTrainer(after, spec, temperature=1.0, seed=1).step([make_group()], step=1)
    assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)


def test_a_later_trainer_of_all_parameters_trains_all_again():
    model = tiny_model()
    OnlineTrainer(model, replace(train_spec(), parameters="gains"), temperature=1.0, seed=1)
    OnlineTrainer(model, train_spec(), temperature=1.0, seed=1)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize(("warmup", "step", "share"), [(0, 1, 1.0), (3, 1, 0.25), (3, 2, 0.5), (3, 4, 1.0), (3, 100, 1.0)])
def test_the_learning_rate_rises_in_equal_parts_and_stays(warmup, step, share):
    spec = replace(train_spec(learning_rate=0.5), warmup_steps=warmup)
    assert learning_rate_at(spec, step) == 0.5 * share
