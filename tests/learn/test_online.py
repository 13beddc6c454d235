"""What holds for every online algorithm, and what the released trainers of AgentGym-RL got wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.learn.lora import Adapted
from agentgym_cli.learn.schedules import steps_after
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, OnlineSpec, PpoSpec, ReinforcePlusPlusSpec, RlooSpec
from agentgym_cli.recipe.schema.learning import FixedHorizon, LoraSpec, TrainSpec
from tests.learn.models import tiny_model, trajectory
from tests.learn.reference import Setting
from tests.learn.tabular import TabularModel, double_precision, trajectory_of
from tests.learn.verification import SIZE, random_step, random_table

pytestmark = pytest.mark.torch

Groups = list[list[Member]]
GROUPED: list[OnlineSpec] = [GrpoSpec(group_size=4), RlooSpec(group_size=4), ReinforcePlusPlusSpec(group_size=4, baseline="group")]
ALL: list[OnlineSpec] = [
    *GROUPED,
    ReinforcePlusPlusSpec(group_size=4, discount=0.9),
    PpoSpec(group_size=4, critic_learning_rate=0.1, discount=0.9, gae_lambda=0.8),
]


def name_of(spec: OnlineSpec) -> str:
    return f"{spec.kind} {getattr(spec, 'baseline', '')}".strip()


every = pytest.mark.parametrize("spec", ALL, ids=name_of)
grouped = pytest.mark.parametrize("spec", GROUPED, ids=name_of)


def make_trainer(spec: OnlineSpec, *, pass_tokens: int = 2048, seed: int = 5, **settings: int) -> OnlineTrainer:
    draw = random.Random(seed)
    train = TrainSpec(steps=3, tasks_per_step=2, learning_rate=0.1, max_gradient_norm=1e9, algorithm=spec, **settings)
    return OnlineTrainer(TabularModel(random_table(draw)), train, temperature=1.0, seed=1, pass_tokens=pass_tokens)  # type: ignore[arg-type]


def make_groups(spec: OnlineSpec, seed: int = 7) -> Groups:
    draw = random.Random(seed)
    start = random_table(random.Random(5))
    setting = Setting(spec=spec, start=start, reference=start, values=[0.0] * SIZE)
    return random_step(draw, setting, by_turn=False)[0]


def gradients(trainer: OnlineTrainer) -> list[torch.Tensor]:
    found = [trainer.model.lm_head.weight.grad]
    if trainer.critic is not None:
        found += [trainer.critic.critic.head.weight.grad, trainer.critic.critic.head.bias.grad]
    return [torch.zeros(1) if each is None else each for each in found]


def learned(spec: OnlineSpec, groups: Groups, *, pass_tokens: int = 2048) -> list[torch.Tensor]:
    """Gradients of the policy and the critic of one step, float64."""
    with double_precision():
        trainer = make_trainer(spec, pass_tokens=pass_tokens)
        trainer.step(groups, step=1)
    return gradients(trainer)


def assert_same(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> None:
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert any(bool(one.abs().max() > 1e-3) for one in left)


def heard_more(member: Member) -> Member:
    """The same episode in a world that says more: tokens before every observation and behind the end, none of which the policy conditions on."""
    item = member.trajectory
    assert item is not None
    spoken, ids, logprobs = "", [], []
    for place, (token, sampled, logp) in enumerate(zip(item.token_ids, item.action_mask, item.logprobs, strict=True)):
        opens = not sampled and (place == 0 or item.action_mask[place - 1])
        spoken += ("ooo" if opens else "") + ("a" if sampled else "o")
        ids += [*([1, 2, 3] if opens else []), token]
        logprobs += [logp] if sampled else []
    return replace(member, trajectory=trajectory_of([*ids, 3, 1], f"{spoken}oo", logprobs))


@every
def test_padding_and_the_size_of_a_pass_change_nothing(spec: OnlineSpec) -> None:
    groups = make_groups(spec)
    assert_same(learned(spec, groups), learned(spec, groups, pass_tokens=1))


@every
def test_the_order_of_groups_and_members_changes_nothing(spec: OnlineSpec) -> None:
    groups = make_groups(spec)
    assert_same(learned(spec, groups), learned(spec, [group[::-1] for group in groups[::-1]]))


@every
def test_promise_05_observations_enter_no_advantage_value_target_or_mean(spec: OnlineSpec) -> None:
    groups = make_groups(spec)
    assert_same(learned(spec, groups), learned(spec, [[heard_more(member) for member in group] for group in groups]))


@every
def test_promise_02_a_group_of_infra_errors_has_no_effect(spec: OnlineSpec) -> None:
    groups = make_groups(spec)
    failed = [replace(member, reward=None) for member in make_groups(spec, seed=8)[0]]
    beside = learned(spec, [failed, *groups])
    assert all(torch.equal(one, other) for one, other in zip(learned(spec, groups), beside, strict=True))


@every
def test_promise_02_a_step_of_infra_errors_changes_no_weight_and_has_no_numbers(spec: OnlineSpec) -> None:
    trainer = make_trainer(spec)
    before = trainer.model.lm_head.weight.detach().clone()
    metrics = trainer.step([[replace(member, reward=None) for member in group] for group in make_groups(spec)], step=1)
    assert torch.equal(trainer.model.lm_head.weight, before)
    assert (metrics.scored, metrics.updates, metrics.loss, metrics.reward_mean, metrics.critic_loss) == (0, 0, None, None, None)


@grouped
def test_groups_of_equal_rewards_give_no_policy_gradient(spec: OnlineSpec) -> None:
    trainer = make_trainer(spec)
    before = trainer.model.lm_head.weight.detach().clone()
    alike = [[replace(member, reward=0.7) for member in make_groups(spec)[0]]]
    metrics = trainer.step(alike, step=1)
    assert torch.equal(trainer.model.lm_head.weight, before)
    assert (metrics.groups_zero_variance, metrics.updates) == (1, 0)


@every
def test_promise_05_a_reward_behind_which_the_world_speaks_last_still_teaches(spec: OnlineSpec) -> None:
    # Upstream puts it on the final token, an observed one, whose mask then takes it away: gae and reinforce++ learn nothing.
    good, bad = (trajectory_of([0, token, 3, 2, 3], "oaooo", [math.log(0.25)]) for token in (1, 2))
    trainer = make_trainer(spec)
    before = torch.softmax(trainer.model.lm_head.weight[:, 0], dim=0).tolist()
    trainer.step([[Member(reward=1.0, trajectory=good), Member(reward=0.0, trajectory=bad)] * 2], step=1)
    after = torch.softmax(trainer.model.lm_head.weight[:, 0], dim=0).tolist()
    assert after[1] > before[1]
    assert after[2] < before[2]


@every
def test_promise_05_an_episode_without_action_tokens_makes_nothing_nan(spec: OnlineSpec) -> None:
    # Upstream divides by the number of action tokens of a trajectory, and a trajectory without any makes the weights NaN.
    silent = trajectory_of([0, 1, 2], "ooo", [])
    groups = make_groups(spec)
    trainer = make_trainer(spec)
    metrics = trainer.step([[replace(member, trajectory=silent) for member in groups[0]], groups[1]], step=1)
    assert trainer.model.lm_head.weight.isfinite().all()
    assert metrics.without_action_tokens == sum(member.reward is not None for member in groups[0])
    alone = make_trainer(spec)
    before = alone.model.lm_head.weight.detach().clone()
    nothing = alone.step([[replace(member, trajectory=silent) for member in groups[0]]], step=1)
    assert torch.equal(alone.model.lm_head.weight, before)
    assert (nothing.action_tokens, nothing.loss, nothing.critic_loss) == (0, None, None)


@every
def test_passes_over_a_step_s_trajectories_are_made(spec: OnlineSpec) -> None:
    # Upstream's ppo_epochs is read and never looped over.
    groups = make_groups(spec)
    once, twice = make_trainer(spec), make_trainer(spec, passes_per_step=2)
    assert (once.step(groups, step=1).updates, twice.step(groups, step=1).updates) == (1, 2)
    assert not torch.equal(once.model.lm_head.weight, twice.model.lm_head.weight)
    if twice.critic is not None and once.critic is not None:
        assert not torch.equal(once.critic.critic.head.weight, twice.critic.critic.head.weight)


def test_each_pass_splits_a_step_anew() -> None:
    trainer = make_trainer(ALL[0], updates_per_step=2, passes_per_step=2)
    step = make_groups(ALL[0])
    assert trainer.step(step, step=1).updates == 4


@every
def test_a_run_of_some_steps_makes_exactly_as_many(spec: OnlineSpec) -> None:
    # Upstream's counter is raised before it is compared: one update too few.
    trainer, groups = make_trainer(spec), make_groups(spec)
    made = sum(trainer.step(groups, step=step).updates for step, _ in steps_after(FixedHorizon(turns=4), after=0, steps=3))
    assert made == 3


def test_a_critic_warms_up_alone() -> None:
    spec = PpoSpec(critic_learning_rate=0.1, critic_warmup_steps=2)
    trainer, groups = make_trainer(spec), make_groups(spec)
    before = trainer.model.lm_head.weight.detach().clone()
    losses = [trainer.step(groups, step=step).critic_loss for step in (1, 2)]
    assert torch.equal(trainer.model.lm_head.weight, before)
    assert losses[1] < losses[0]  # type: ignore[operator]
    assert trainer.step(groups, step=3).updates == 1
    assert not torch.equal(trainer.model.lm_head.weight, before)


def test_an_importance_weight_is_measured_and_capped() -> None:
    spec = GrpoSpec(group_size=4)
    groups = make_groups(spec)
    half = [[replace(m, trajectory=m.trajectory and replace(m.trajectory, logprobs=tuple(min(each, -9.0) for each in m.trajectory.logprobs)))
             for m in group] for group in groups]  # fmt: skip
    trainer = OnlineTrainer(
        TabularModel(random_table(random.Random(5))),  # type: ignore[arg-type]
        TrainSpec(steps=1, tasks_per_step=1, learning_rate=0.1, algorithm=spec, importance_cap=1.5),
        temperature=1.0,
        seed=1,
    )
    metrics = trainer.step(half, step=1)
    # The sampler says exp(-9) and the trainer far more, so every weight is at its cap; ratios are the trainer's own, 1 at first.
    assert metrics.importance_weight == pytest.approx(1.5)
    assert metrics.sampled_kl == pytest.approx(0.0, abs=1e-6)
    assert metrics.logprob_difference is not None
    assert metrics.logprob_difference > 4


@every
@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_return_that_is_no_number_stops_the_run_before_it_reaches_a_weight(spec: OnlineSpec, reward: float) -> None:
    trainer, groups = make_trainer(spec), make_groups(spec)
    before = trainer.model.lm_head.weight.detach().clone()
    groups[0][0] = replace(groups[0][0], reward=reward)
    with pytest.raises(TrainerError, match="step 2: expected finite returns"):
        trainer.step(groups, step=2)
    assert torch.equal(trainer.model.lm_head.weight, before)


def test_a_critic_of_a_model_with_adapters_trains_its_adapters_and_its_head() -> None:
    model = tiny_model()
    Adapted(model, LoraSpec(rank=2, alpha=4.0), seed=1)
    train = TrainSpec(steps=1, tasks_per_step=1, learning_rate=0.1, algorithm=PpoSpec(critic_learning_rate=0.1))
    trainer = OnlineTrainer(model, train, temperature=1.0, seed=1)
    assert trainer.critic is not None
    critic = trainer.critic.critic
    before = {name: value.detach().clone() for name, value in critic.named_parameters()}
    group = [Member(reward=float(place), trajectory=trajectory("ooaaoa", offset=place)) for place in range(2)]
    for step in (1, 2, 3):
        trainer.step([group], step=step)
    moved = {name for name, value in critic.named_parameters() if not torch.equal(value, before[name])}
    assert {"head.weight", "head.bias"} < moved
    assert all(name.startswith("head.") or "lora_" in name for name in moved)
