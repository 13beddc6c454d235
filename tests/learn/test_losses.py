"""Losses over ragged masked batches, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from agentgym_cli.learn.losses import policy_loss, reference_kl, supervised_loss

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
        sums = [policy_loss(new, old, gain, MASK, clip=0.2).surrogate, reference_kl(new, reference, MASK), supervised_loss(new, MASK)]
        torch.stack(sums).sum().backward()
        assert new.grad is not None
        return [each.item() for each in sums], new.grad.tolist()

    assert at(value) == at(-0.125)
    assert all(gradient == 0 for gradient in torch.tensor(at(value)[1])[~MASK])


def test_k3_by_hand():
    # d = log(reference / new): log(0.5/0.75), 0, log(0.4/0.2); exp(d) - d - 1
    expected = (2 / 3 - math.log(2 / 3) - 1) + 0.0 + (2 - math.log(2) - 1)
    assert reference_kl(NEW, OLD, MASK).item() == pytest.approx(expected, rel=1e-12)


def test_supervised_loss_is_the_negative_log_likelihood_of_action_tokens():
    assert supervised_loss(NEW, MASK).item() == pytest.approx(-math.log(0.75 * 0.2 * 0.2), rel=1e-12)
