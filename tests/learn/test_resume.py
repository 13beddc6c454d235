"""A run that is killed and resumed learns the same, bit for bit, with every online algorithm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import Qwen2ForCausalLM

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.checkpoint import load_checkpoint, save_checkpoint
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.learn.model import WEIGHTS, load_weights
from agentgym_cli.learn.step_metrics import StepMetrics
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec, ReinforcePlusPlusSpec, RlooSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from tests.learn.models import tiny_model, trajectory, weights_of

pytestmark = pytest.mark.torch

ALGORITHMS: list[OnlineSpec] = [
    GrpoSpec(group_size=4, kl_coefficient=0.1, entropy_coefficient=0.01),
    RlooSpec(group_size=4, kl_coefficient=0.1, kl_place="reward", kl_estimate="k1"),
    ReinforcePlusPlusSpec(group_size=2, kl_coefficient=0.1, discount=0.9),
    ReinforcePlusPlusSpec(group_size=4, baseline="group"),
    PpoSpec(critic_learning_rate=1e-2, discount=0.9, gae_lambda=0.8, kl_coefficient=0.1),
]
STEPS = 3
LAYOUTS = ("ooaaoa", "oaa", "ooooaoaaa", "ooaoa")


def make_trainer(model: Qwen2ForCausalLM, algorithm: OnlineSpec) -> OnlineTrainer:
    spec = TrainSpec(steps=STEPS, tasks_per_step=2, learning_rate=1e-2, algorithm=algorithm, updates_per_step=2, importance_cap=2.0)
    return OnlineTrainer(model, spec, temperature=1.0, seed=3)


def groups_at(step: int) -> list[list[Member]]:
    rewards = [1.0, 0.0, None, 0.5] if step % 2 else [0.0, 1.0, 1.0, 0.25]
    return [
        [Member(reward=reward, trajectory=trajectory(text, offset=step + task)) for reward, text in zip(rewards, LAYOUTS, strict=True)]
        for task in (0, 4)
    ]


def keep(folder: Path, trainer: OnlineTrainer, step: int) -> str:
    return save_checkpoint(folder / str(step), model=trainer.model, optimizer=trainer.optimizer, step=step, digest="d", beside=trainer.beside)


def restored(folder: Path, algorithm: OnlineSpec, step: int) -> OnlineTrainer:
    """A fresh process: another model, the reference from step 0, then the checkpoint."""
    model = tiny_model(seed=9)
    load_weights(model, folder / "0" / WEIGHTS)
    trainer = make_trainer(model, algorithm)
    assert load_checkpoint(folder / str(step), model=model, optimizer=trainer.optimizer, digest="d", beside=trainer.beside) == step
    return trainer


def through(folder: Path, algorithm: OnlineSpec, stops: list[int]) -> tuple[list[StepMetrics], str, dict[str, torch.Tensor]]:
    """Metrics of all steps, the last weights' digest and the critic, with a restart behind each step of ``stops``."""
    trainer = make_trainer(tiny_model(), algorithm)
    keep(folder, trainer, 0)
    metrics = []
    for step in range(1, STEPS + 1):
        metrics.append(trainer.step(groups_at(step), step=step))
        if step in stops:
            keep(folder, trainer, step)
            trainer = restored(folder, algorithm, step)
    digest = keep(folder, trainer, STEPS)
    critic = {} if trainer.critic is None else trainer.critic.critic.state_dict()
    return metrics, digest, critic


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda each: f"{each.kind}{getattr(each, 'baseline', '')}")
def test_promise_10_a_resume_of_any_algorithm_equals_the_uninterrupted_run_bit_for_bit(tmp_path: Path, algorithm: OnlineSpec) -> None:
    metrics, digest, critic = through(tmp_path / "whole", algorithm, [])
    again = through(tmp_path / "twice", algorithm, [1, 2])
    assert again[:2] == (metrics, digest)
    assert again[2].keys() == critic.keys()
    assert all(torch.equal(value, again[2][key]) for key, value in critic.items())


def test_a_checkpoint_without_the_critic_is_refused_by_name(tmp_path: Path) -> None:
    keep(tmp_path, make_trainer(tiny_model(), ALGORITHMS[0]), 1)
    trainer = make_trainer(tiny_model(), ALGORITHMS[-1])
    with pytest.raises(TrainerError, match=r"critic\.safetensors"):
        load_checkpoint(tmp_path / "1", model=trainer.model, optimizer=trainer.optimizer, digest="d", beside=trainer.beside)


def test_a_critic_of_another_shape_is_refused_by_name(tmp_path: Path) -> None:
    small, large = make_trainer(tiny_model(), ALGORITHMS[-1]), make_trainer(tiny_model(kv_heads=2), ALGORITHMS[-1])
    keep(tmp_path, large, 1)
    beside = {"critic": (small.beside["critic"][0], large.beside["critic"][1])}
    with pytest.raises(TrainerError, match=r"critic\.safetensors: expected the tensors of this run's network"):
        load_checkpoint(tmp_path / "1", model=large.model, optimizer=large.optimizer, digest="d", beside=beside)


def test_a_reference_stays_at_step_0_whatever_is_learned() -> None:
    trainer = make_trainer(tiny_model(), replace(ALGORITHMS[0]))
    before = weights_of(tiny_model())
    trainer.step(groups_at(1), step=1)
    assert trainer.reference is not None
    assert all(torch.equal(value, before[name]) for name, value in trainer.reference.named_parameters())
