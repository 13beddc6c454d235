"""Direct preference optimization against numbers worked out by hand, and what must not change them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn import preferences
from agentgym_cli.learn.pairs import Pair
from agentgym_cli.learn.preferences import PreferenceTrainer, cached_reference, preference_loss, reference_logps
from agentgym_cli.learn.update import make_optimizer
from tests.learn.models import logp_by_hand, tiny_model, trajectory, weights_of

pytestmark = pytest.mark.torch

PAIRS = [
    Pair(chosen=trajectory("ooaaoa"), rejected=trajectory("ooaaoaaa", offset=2)),
    Pair(chosen=trajectory("ooooaoaaa", offset=4), rejected=trajectory("oooa", offset=1)),
    Pair(chosen=trajectory("oaoa", offset=3), rejected=trajectory("oaaa", offset=5)),
]


def trainer(model, beta: float = 0.5) -> PreferenceTrainer:
    return PreferenceTrainer(model, optimizer=make_optimizer(model, weight_decay=0.0), beta=beta, max_gradient_norm=1e9)


def told(model) -> list[tuple[Pair, tuple[float, float]]]:
    return list(zip(PAIRS, reference_logps(model, PAIRS), strict=True))


def test_the_loss_of_a_pair_is_that_of_the_paper_by_hand():
    reference = torch.tensor([[-2.0, -1.0]], dtype=torch.float64)
    loss, margin = preference_loss(torch.tensor([-1.0], dtype=torch.float64), torch.tensor([-3.0], dtype=torch.float64), reference, 0.1)
    # 0.1 * ((-1 + 2) - (-3 + 1)) = 0.3
    assert float(margin) == pytest.approx(0.3, abs=1e-12)
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-0.3)), abs=1e-12)


def test_the_loss_has_the_gradient_of_finite_differences():
    reference = torch.tensor([[-2.0, -1.0], [-4.0, -0.5]], dtype=torch.float64)
    sides = tuple(torch.randn(2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    assert torch.autograd.gradcheck(lambda a, b: preference_loss(a, b, reference, 0.7)[0], sides)


def test_before_the_first_update_every_margin_is_0_and_the_loss_log_2():
    model = tiny_model()
    metrics = trainer(model).preference_step(told(model), step=1, learning_rate=1e-3)
    assert metrics.loss == pytest.approx(math.log(2), abs=1e-6)
    assert metrics.margin == pytest.approx(0.0, abs=1e-6)
    assert metrics.pairs == 3
    # 3 + 5, 4 + 1, 2 + 3
    assert metrics.action_tokens == 18


def test_log_probabilities_add_up_over_action_tokens_alone():
    model = tiny_model()
    for pair, (chosen, rejected) in told(model):
        assert chosen == pytest.approx(sum(logp_by_hand(model, pair.chosen)), abs=1e-4)
        assert rejected == pytest.approx(sum(logp_by_hand(model, pair.rejected)), abs=1e-4)


def test_the_metrics_of_a_step_are_those_of_the_model_before_it():
    reference, model = tiny_model(seed=1), tiny_model(seed=2)
    known = told(reference)
    by_hand = [0.5 * ((sum(logp_by_hand(model, p.chosen)) - c) - (sum(logp_by_hand(model, p.rejected)) - r)) for p, (c, r) in known]
    metrics = trainer(model).preference_step(known, step=1, learning_rate=1e-3)
    assert metrics.margin == pytest.approx(sum(by_hand) / 3, abs=1e-4)
    assert metrics.accuracy == pytest.approx(sum(each > 0 for each in by_hand) / 3)
    assert metrics.loss == pytest.approx(sum(math.log1p(math.exp(-each)) for each in by_hand) / 3, abs=1e-4)
    assert metrics.chosen_logp == pytest.approx(sum(sum(logp_by_hand(tiny_model(seed=2), p.chosen)) for p in PAIRS) / 3, abs=1e-4)


def test_the_pieces_that_pairs_are_computed_in_change_nothing(monkeypatch):
    whole, cut = tiny_model(), tiny_model()
    known = told(whole)
    first = trainer(whole).preference_step(known, step=1, learning_rate=1e-3)
    monkeypatch.setattr(preferences, "PIECE_TOKENS", 1)
    second = trainer(cut).preference_step(known, step=1, learning_rate=1e-3)
    assert second.gradient_norm == pytest.approx(first.gradient_norm, rel=1e-4)
    for name, value in weights_of(whole).items():
        assert torch.allclose(value, weights_of(cut)[name], atol=1e-4)


def test_preferences_are_learned():
    model = tiny_model()
    known, learner = told(model), trainer(model)
    steps = [learner.preference_step(known, step=step, learning_rate=1e-2) for step in range(1, 21)]
    assert steps[-1].accuracy == 1.0
    assert steps[-1].loss < 0.3 and steps[-1].margin > 1.0


def test_the_reference_is_asked_once_and_read_back_bit_for_bit(tmp_path: Path):
    first = cached_reference(tmp_path / "reference.json", tiny_model(seed=1), PAIRS)
    # another model: what is there is of the model of step 0
    assert cached_reference(tmp_path / "reference.json", tiny_model(seed=2), PAIRS) == first
    assert cached_reference(tmp_path / "reference.json", tiny_model(seed=1), PAIRS[:2]) == first[:2]
    assert first == reference_logps(tiny_model(seed=1), PAIRS)


def test_no_pairs_are_an_error_that_names_the_step():
    with pytest.raises(TrainerError, match="step 4: expected pairs, got none"):
        trainer(tiny_model()).preference_step([], step=4, learning_rate=1e-3)
