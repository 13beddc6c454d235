"""Losses over ragged masked batches, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from agentgym_cli.learn.losses import importance_weight, policy_loss, reference_kl, supervised_loss, value_loss

pytestmark = pytest.mark.torch

MASK = torch.tensor([[False, True, True, False], [False, False, True, False]])


def log(rows: list[list[float]]) -> Tensor:
    """Probabilities as log-probabilities, double precision."""
    return torch.tensor(rows, dtype=torch.float64).log()


OLD = log([[1, 0.5, 0.2, 1], [1, 1, 0.4, 1]])
NEW = log([[1, 0.75, 0.2, 1], [1, 1, 0.2, 1]])
GAIN = torch.tensor([[9.0, 2.0, 2.0, 9.0], [9.0, 9.0, -1.0, 9.0]], dtype=torch.float64)


def test_the_clipped_surrogate_by_hand():
    # ratios 1.5, 1, 0.5; clipped at 0.2: min(1.5*2, 1.2*2) + min(1*2, 1*2) + min(-0.5, -0.8) = 2.4 + 2 - 0.8
    found = policy_loss(NEW, OLD, GAIN, MASK, clip=0.2)
    assert found.surrogate.item() == pytest.approx(-(2.4 + 2.0 - 0.8), rel=1e-12)
    assert found.clipped.item() == 2
    assert found.old_minus_new.item() == pytest.approx(math.log(0.5 / 0.75) + math.log(0.4 / 0.2), rel=1e-12)


def test_gradients_flow_through_unclipped_tokens_only():
    new = NEW.clone().requires_grad_()
    policy_loss(new, OLD, GAIN, MASK, clip=0.2).surrogate.backward()
    # Token (0, 2) has ratio 1 and gain 2; both others are held by the clip.
    assert new.grad is not None
    assert new.grad.flatten().tolist() == pytest.approx([0, 0, -2.0, 0, 0, 0, 0, 0])


def test_a_clip_never_holds_back_a_step_towards_the_sampled_policy():
    # Ratio 0.5 with a positive gain, ratio 1.5 with a negative one: the pessimistic minimum keeps both gradients.
    new = log([[0.1, 0.75]]).requires_grad_()
    found = policy_loss(new, log([[0.2, 0.5]]), torch.tensor([[1.0, -1.0]], dtype=torch.float64), torch.ones(1, 2, dtype=torch.bool), clip=0.2)
    found.surrogate.backward()
    assert found.clipped.item() == 0
    assert new.grad is not None
    assert new.grad.tolist()[0] == pytest.approx([-0.5, 1.5])


@pytest.mark.parametrize("value", [0.0, 9.0, -1e6, math.inf])
def test_promise_05_observation_values_never_reach_a_loss_or_its_gradient(value):
    def at(observed: float) -> tuple[list[float], list[list[float]]]:
        new = NEW.masked_fill(~MASK, observed).requires_grad_()
        old, gain, reference = (other.masked_fill(~MASK, observed) for other in (OLD, GAIN, OLD))
        sums = [
            policy_loss(new, old, gain, MASK, clip=0.2, weight=importance_weight(old, reference, cap=2.0)).surrogate,
            *(reference_kl(new, reference, MASK, estimate) for estimate in ("k1", "k2", "k3")),
            value_loss(new, old, gain, MASK, clip=0.2),
            supervised_loss(new, MASK),
        ]
        torch.stack(sums).sum().backward()
        assert new.grad is not None
        return [each.item() for each in sums], new.grad.tolist()

    assert at(value) == at(-0.125)
    assert all(gradient == 0 for gradient in torch.tensor(at(value)[1])[~MASK])


def test_clip_higher_lets_a_ratio_rise_further_than_it_may_fall():
    # ratios 1.5, 1, 0.5; up to 1.4, down to 0.8: min(3, 2.8) + 2 + min(-0.5, -0.8)
    found = policy_loss(NEW, OLD, GAIN, MASK, clip=0.2, clip_high=0.4)
    assert found.surrogate.item() == pytest.approx(-(2.8 + 2.0 - 0.8), rel=1e-12)


def test_weights_multiply_each_token_behind_the_clip():
    weight = torch.tensor([[9.0, 0.5, 2.0, 9.0], [9.0, 9.0, 0.25, 9.0]], dtype=torch.float64)
    assert policy_loss(NEW, OLD, GAIN, MASK, clip=0.2, weight=weight).surrogate.item() == pytest.approx(-(1.2 + 4.0 - 0.2), rel=1e-12)


def test_an_importance_weight_is_the_ratio_of_trainer_to_sampler_up_to_its_cap():
    # 0.75 / 0.5, 0.2 / 0.2, 0.2 / 0.4
    weight = importance_weight(NEW, OLD, cap=1.25)[MASK]
    assert weight.tolist() == pytest.approx([1.25, 1.0, 0.5])
    assert not importance_weight(NEW.clone().requires_grad_(), OLD, cap=1.25).requires_grad


def test_k1_and_k2_by_hand():
    # d = log(0.5/0.75), 0, log(0.4/0.2): -d and d^2 / 2
    first, last = math.log(2 / 3), math.log(2)
    assert reference_kl(NEW, OLD, MASK, "k1").item() == pytest.approx(-first - last, rel=1e-12)
    assert reference_kl(NEW, OLD, MASK, "k2").item() == pytest.approx((first**2 + last**2) / 2, rel=1e-12)


@pytest.mark.parametrize(("clip", "expected"), [(None, (4.0 + 1.0 + 0.25) / 2), (0.5, (6.25 + 1.0 + 0.25) / 2), (9.0, (4.0 + 1.0 + 0.25) / 2)])
def test_the_critic_s_loss_by_hand(clip, expected):
    # errors 3 - 1, 0 - 1, 0.5 - 1; the first value fell from 4, and at a half-width of 1/2 it counts as 3.5
    values = torch.tensor([[9.0, 3.0, 0.0, 9.0], [9.0, 9.0, 0.5, 9.0]], dtype=torch.float64)
    before = torch.tensor([[7.0, 4.0, 0.0, 7.0], [7.0, 7.0, 0.5, 7.0]], dtype=torch.float64)
    wanted = torch.ones(2, 4, dtype=torch.float64)
    assert value_loss(values, before, wanted, MASK, clip).item() == pytest.approx(expected, rel=1e-12)


def test_a_value_that_moved_as_far_as_it_may_learns_no_more():
    # from 4 to 3 at a half-width of 1/2: the held value, 3.5, has the larger error, and no gradient
    values = torch.tensor([[3.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.ones(1, 1, dtype=torch.bool)
    value_loss(values, torch.tensor([[4.0]], dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64), mask, 0.5).backward()
    assert values.grad is not None
    assert values.grad.item() == 0.0


def test_k3_by_hand():
    # d = log(reference / new): log(0.5/0.75), 0, log(0.4/0.2); exp(d) - d - 1
    expected = (2 / 3 - math.log(2 / 3) - 1) + 0.0 + (2 - math.log(2) - 1)
    assert reference_kl(NEW, OLD, MASK).item() == pytest.approx(expected, rel=1e-12)


def test_supervised_loss_is_the_negative_log_likelihood_of_action_tokens():
    assert supervised_loss(NEW, MASK).item() == pytest.approx(-math.log(0.75 * 0.2 * 0.2), rel=1e-12)
