"""How the local engine computes: precision, activations that are computed again, passes, devices."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn import runtime
from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.learn.model import recompute_activations
from agentgym_cli.learn.runtime import settle
from agentgym_cli.learn.update import action_scores
from agentgym_cli.recipe.schema.algorithms import PpoSpec
from agentgym_cli.recipe.schema.computing import EngineSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from tests.learn.models import tiny_model, trajectory

pytestmark = pytest.mark.torch

LAYOUTS = ("ooaaoa", "oaa", "ooooaoaaa", "ooaoa")


def make_group() -> list[Member]:
    return [Member(reward=float(place % 2), trajectory=trajectory(text, offset=place)) for place, text in enumerate(LAYOUTS)]


def make_trainer(*, pass_tokens: int = 2048, recompute: bool = False) -> OnlineTrainer:
    """PPO, so that a critic, a reference and a policy are all computed."""
    model = tiny_model()
    if recompute:
        recompute_activations(model)
    spec = TrainSpec(
        steps=1, tasks_per_step=1, learning_rate=1e-2, max_gradient_norm=1e9, algorithm=PpoSpec(critic_learning_rate=1e-2, kl_coefficient=0.1)
    )
    return OnlineTrainer(model, spec, temperature=1.0, seed=1, pass_tokens=pass_tokens)


def gradients(trainer: OnlineTrainer) -> dict[str, torch.Tensor]:
    """Of a first step; the critic's head is still 0, so its body has none but the head's."""
    trainer.step([make_group()], step=1)
    assert trainer.critic is not None
    named = [*trainer.model.named_parameters(), *trainer.critic.critic.named_parameters(prefix="critic")]
    return {name: value.grad for name, value in named if value.grad is not None}


def test_a_gradient_is_added_up_over_passes_of_any_size():
    whole, single = gradients(make_trainer()), gradients(make_trainer(pass_tokens=1))
    assert whole.keys() == single.keys()
    for name, value in whole.items():
        torch.testing.assert_close(value, single[name], rtol=1e-4, atol=1e-6)


def test_activations_that_are_computed_again_give_the_same_gradient_bit_for_bit():
    kept, again = gradients(make_trainer()), gradients(make_trainer(recompute=True))
    assert kept.keys() == again.keys()
    assert all(torch.equal(value, again[name]) for name, value in kept.items())


@pytest.mark.parametrize(("recompute", "times"), [(False, 1), (True, 2)])
def test_a_layer_s_inside_is_computed_again_on_the_way_back(recompute, times):
    model = tiny_model()
    if recompute:
        recompute_activations(model)
    calls: Counter[int] = Counter()
    for place, layer in enumerate(model.model.layers):
        layer.mlp.register_forward_pre_hook(lambda *_, place=place: calls.update([place]))
    batch = pad([Example(trajectory=trajectory("ooaaoa"), advantage=0.0)])
    action_scores(model, batch, temperature=1.0).logp.sum().backward()
    assert calls == {0: times, 1: times}


def test_in_bfloat16_products_are_rough_and_weights_gradients_and_scores_are_float32():
    model = tiny_model()
    batch = pad([Example(trajectory=trajectory(text), advantage=0.0) for text in LAYOUTS])
    exact, rough = (action_scores(model, batch, temperature=1.0, precision=each).logp for each in ("float32", "bfloat16"))
    assert rough.dtype is torch.float32
    assert not torch.equal(rough, exact)
    torch.testing.assert_close(rough, exact, rtol=0.0, atol=0.1)
    rough.sum().backward()
    assert {value.grad.dtype for value in model.parameters() if value.grad is not None} == {torch.float32}


def test_a_machine_without_products_in_bfloat16_refuses_them_with_the_reason(monkeypatch):
    monkeypatch.setattr(runtime, "_multiplies_bfloat16", lambda device: False)
    with pytest.raises(TrainerError, match=r"engine\.precision: expected float32, since this CPU has no products in bfloat16"):
        settle(EngineSpec(stack="cpu", precision="bfloat16"))
    monkeypatch.setattr(runtime, "_multiplies_bfloat16", lambda device: True)
    assert settle(EngineSpec(stack="cpu", precision="bfloat16")) == torch.device("cpu")


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    try:
        with pytest.raises(TrainerError, match=r"engine\.device: expected a GPU that torch .* sees, got none"):
            settle(EngineSpec(stack="cpu", device="cuda"))
    finally:
        settle(EngineSpec(stack="cpu"))
