"""GRPO steps of the local trainer: what moves the weights, what must not, and what is measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from transformers import Qwen2ForCausalLM

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.algorithms import algorithm_of
from agentgym_cli.learn.batch import Example, pad
from agentgym_cli.learn.experience import Member
from agentgym_cli.learn.gather import Judges, gather
from agentgym_cli.learn.local import OnlineTrainer
from agentgym_cli.learn.update import action_scores
from agentgym_cli.recipe.schema.algorithms import GrpoSpec
from tests.learn.models import logp_by_hand, tiny_model, train_spec, trajectory, weights_of

pytestmark = pytest.mark.torch

LAYOUTS = ("ooaaoa", "oaa", "ooooaoaaa", "ooaoa")


def sampled(model: Qwen2ForCausalLM, item: Trajectory, *, temperature: float = 1.0) -> Trajectory:
    """The trajectory with the log-probabilities that ``model`` gives."""
    found = iter(logp_by_hand(model, item, temperature))
    return replace(item, logprobs=tuple(next(found) if chosen else 0.0 for chosen in item.action_mask))


def make_group(model: Qwen2ForCausalLM, rewards: list[float | None], *, offset: int = 0) -> list[Member]:
    return [
        Member(reward=reward, trajectory=sampled(model, trajectory(LAYOUTS[place % 4], offset=offset + place)))
        for place, reward in enumerate(rewards)
    ]


def make_trainer(model: Qwen2ForCausalLM, **settings: float | int | str) -> OnlineTrainer:
    return OnlineTrainer(model, train_spec(**settings), temperature=1.0, seed=1)  # type: ignore[arg-type]


def gradient_of(groups: list[list[Member]], **settings: float | int | str) -> dict[str, torch.Tensor]:
    """What a step leaves in the gradients of a fresh model."""
    model = tiny_model()
    make_trainer(model, **settings).step(groups, step=1)
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def assert_close(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        torch.testing.assert_close(value, right[name], rtol=1e-4, atol=1e-6)


def test_scores_of_a_padded_batch_are_those_of_each_trajectory_alone():
    model = tiny_model()
    items = [trajectory(text, offset=place) for place, text in enumerate(LAYOUTS)]
    batch = pad([Example(trajectory=item, advantage=0.0) for item in items])
    logp = action_scores(model, batch, temperature=0.7).logp
    alone = [value for item in items for value in logp_by_hand(model, item, 0.7)]
    assert logp[batch.action_mask].tolist() == pytest.approx(alone, abs=2e-6)
    assert not logp[~batch.action_mask].any()


@pytest.mark.parametrize("average", ["token", "episode"])
def test_the_gradient_is_that_of_the_formula(average):
    model = tiny_model()
    members = make_group(model, [1.0, 0.0, 0.0, 0.0])
    advantage = [value / (0.5 + 1e-6) for value in (0.75, -0.25, -0.25, -0.25)]
    total = sum(sum(member.trajectory.action_mask) for member in members if member.trajectory)
    loss = torch.zeros(())
    for member, gain in zip(members, advantage, strict=True):
        assert member.trajectory is not None
        ids, mask = member.trajectory.token_ids, member.trajectory.action_mask
        each = torch.log_softmax(model(torch.tensor([ids])).logits[0], dim=-1)
        # At a ratio of 1 the surrogate's gradient is that of advantage times log-probability.
        scored = sum(each[place - 1, ids[place]] for place in range(1, len(ids)) if mask[place])
        loss = loss - gain * scored / (total if average == "token" else len(members) * sum(mask))
    loss.backward()
    expected = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    assert_close(gradient_of([members], average=average), expected)


def test_a_step_makes_what_succeeded_more_likely_and_what_failed_less():
    model = tiny_model()
    members = make_group(model, [1.0, 0.0, 0.0, 1.0])
    before = [sum(member.trajectory.logprobs) for member in members if member.trajectory]
    make_trainer(model, learning_rate=1e-3).step([members], step=1)
    after = [sum(logp_by_hand(model, member.trajectory)) for member in members if member.trajectory]
    assert [now > then for now, then in zip(after, before, strict=True)] == [True, False, False, True]


@pytest.mark.parametrize("settings", [{}, {"updates": 2}])
def test_a_group_of_equal_rewards_changes_no_weight(settings):
    model = tiny_model()
    before = weights_of(model)
    metrics = make_trainer(model, **settings).step([make_group(model, [1.0, 1.0, 1.0, 1.0])], step=1)
    assert all(torch.equal(value, before[name]) for name, value in weights_of(model).items())
    assert (metrics.groups_zero_variance, metrics.updates, metrics.loss, metrics.reward_mean) == (1, 0, None, 1.0)


def test_rows_without_an_advantage_count_in_the_average_only():
    model = tiny_model()
    spread, equal = make_group(model, [1.0, 0.0, 0.0, 1.0]), make_group(model, [1.0, 1.0, 1.0, 1.0], offset=4)
    alone, beside = gradient_of([spread]), gradient_of([spread, equal])
    # Both groups have the same 13 action tokens, so the average halves.
    assert_close({name: value / 2 for name, value in alone.items()}, beside)


def test_promise_02_a_group_of_infra_errors_has_no_effect_at_all():
    model = tiny_model()
    before = weights_of(model)
    failed = [Member(reward=None, trajectory=sampled(model, trajectory("ooaa"))) for _ in range(4)]
    metrics = make_trainer(model).step([failed], step=1)
    assert all(torch.equal(value, before[name]) for name, value in weights_of(model).items())
    assert (metrics.scored, metrics.planned, metrics.groups_dropped, metrics.reward_mean, metrics.action_tokens) == (0, 4, 1, None, 0)
    assert metrics.logprob_difference is None


def test_promise_02_infra_errors_beside_a_group_leave_its_gradient_bit_for_bit():
    model = tiny_model()
    group = make_group(model, [1.0, 0.0, 0.0, 1.0])
    failed = [Member(reward=None, trajectory=sampled(model, trajectory("ooaaaa", offset=place))) for place in range(4)]
    alone, beside = gradient_of([group]), gradient_of([failed, group])
    assert all(torch.equal(value, beside[name]) for name, value in alone.items())


def test_promise_02_an_infra_error_inside_a_group_is_as_if_it_had_not_been_planned():
    model = tiny_model()
    group = make_group(model, [1.0, 0.0, 0.0])
    failed = Member(reward=None, trajectory=sampled(model, trajectory("oaoaoa", offset=7)))
    alone, beside = gradient_of([group]), gradient_of([[group[0], failed, *group[1:]]])
    assert all(torch.equal(value, beside[name]) for name, value in alone.items())


@pytest.mark.parametrize("replacement", [0, 7, 12])
def test_promise_05_what_the_world_said_is_never_a_target(replacement):
    # The last observation changes; no action token follows it in any row, so nothing that is learned can change.
    model = tiny_model()
    group = make_group(model, [1.0, 0.0, 0.0, 1.0])
    said = [replace(member.trajectory, token_ids=(*member.trajectory.token_ids, replacement)) for member in group if member.trajectory]
    longer = [replace(item, action_mask=(*item.action_mask, False), logprobs=(*item.logprobs, 0.0)) for item in said]
    heard = [Member(reward=member.reward, trajectory=item) for member, item in zip(group, longer, strict=True)]
    assert_close(gradient_of([heard]), gradient_of([group]))


def test_promise_05_a_sampled_stop_token_is_learned():
    model = tiny_model()
    stop = 12
    base = replace(trajectory("ooaa"), token_ids=(0, 4, 10, stop))
    group = [Member(reward=reward, trajectory=sampled(model, base if reward else trajectory("ooaa", offset=3))) for reward in (1.0, 0.0, 0.0, 0.0)]
    before = logp_by_hand(model, base)[-1]
    make_trainer(model, learning_rate=1e-3).step([group], step=1)
    assert logp_by_hand(model, base)[-1] > before


def test_promise_05_a_trajectory_without_action_tokens_is_dropped_and_counted():
    model = tiny_model()
    group = make_group(model, [1.0, 0.0, 0.0, 1.0])
    silent = [*group, Member(reward=0.0, trajectory=None), Member(reward=0.0, trajectory=trajectory("ooo"))]
    metrics = make_trainer(model).step([silent], step=1)
    assert (metrics.without_action_tokens, metrics.scored, metrics.updates) == (2, 6, 1)
    # They are scored, so they count in the baseline: mean 1/3.
    plain = GrpoSpec(group_size=4, normalize_std=False)
    found = gather([silent], plain, algorithm_of(plain), Judges(), step=1)
    assert [example.advantage for example in found.examples] == pytest.approx([2 / 3, -1 / 3, -1 / 3, 2 / 3])


def test_the_order_of_groups_and_members_changes_nothing_but_rounding():
    model = tiny_model()
    left, right = make_group(model, [1.0, 0.0, 0.0, 1.0]), make_group(model, [0.0, 0.0, 1.0, 0.5], offset=5)
    assert_close(gradient_of([left, right]), gradient_of([right[::-1], left[::-1]]))


def test_the_same_step_twice_is_the_same_bit_for_bit():
    groups = [make_group(tiny_model(), [1.0, 0.0, 0.0, 1.0])]
    one, two = (tiny_model() for _ in range(2))
    metrics = [make_trainer(model, updates=2, kl=0.1, entropy=0.01).step(groups, step=1) for model in (one, two)]
    assert metrics[0] == metrics[1]
    assert all(torch.equal(value, weights_of(two)[name]) for name, value in weights_of(one).items())


def test_updates_split_a_step_into_minibatches_that_hold_each_trajectory_once():
    groups = [make_group(tiny_model(), [1.0, 0.0, 0.0, 1.0]), make_group(tiny_model(), [0.0, 1.0, 0.0, 0.0], offset=5)]
    trainer = make_trainer(tiny_model(), updates=3)
    spec = GrpoSpec(group_size=4)
    examples = gather(groups, spec, algorithm_of(spec), Judges(), step=1).examples
    split = [trainer._minibatches(examples, step) for step in (1, 1, 2)]
    assert [sum(len(part) for part in parts) for parts in split] == [8, 8, 8]
    assert sorted(map(id, sum(split[0], []))) == sorted(map(id, examples))  # noqa: RUF017
    assert split[0] == split[1]
    assert split[0] != split[2]
    assert trainer.step(groups, step=1).updates == 3


def test_agreement_of_trainer_and_sampler_is_measured_before_the_update():
    model = tiny_model()
    group = make_group(model, [1.0, 0.0, 0.0, 1.0])
    assert make_trainer(model, learning_rate=0.1).step([group], step=1).logprob_difference == pytest.approx(0.0, abs=2e-6)
    model = tiny_model()
    wrong = group[1].trajectory
    assert wrong is not None
    wrong = replace(wrong, logprobs=(0.0, wrong.logprobs[1] - 0.25, wrong.logprobs[2]))
    off = [group[0], Member(reward=0.0, trajectory=wrong), *group[2:]]
    assert make_trainer(model).step([off], step=1).logprob_difference == pytest.approx(0.25, abs=1e-5)


def test_agreement_is_measured_when_there_is_nothing_to_learn():
    model = tiny_model()
    metrics = make_trainer(model).step([make_group(model, [0.0, 0.0, 0.0, 0.0])], step=1)
    assert metrics.logprob_difference == pytest.approx(0.0, abs=2e-6)


def test_temperature_is_part_of_what_is_scored():
    model = tiny_model()
    group = [
        Member(reward=reward, trajectory=sampled(model, trajectory(text), temperature=0.5)) for reward, text in zip((1.0, 0.0), LAYOUTS, strict=False)
    ]
    cool = OnlineTrainer(tiny_model(), train_spec(), temperature=0.5, seed=1).step([group], step=1)
    assert cool.logprob_difference == pytest.approx(0.0, abs=5e-6)
    warm = OnlineTrainer(tiny_model(), train_spec(), temperature=1.0, seed=1).step([group], step=1)
    assert warm.logprob_difference is not None
    assert warm.logprob_difference > 0.1


def test_entropy_is_measured_in_nats_per_action_token():
    model = tiny_model()
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    metrics = make_trainer(model).step([make_group(model, [1.0, 0.0, 0.0, 1.0])], step=1)
    assert metrics.entropy == pytest.approx(math.log(13), rel=1e-5)


def test_the_kl_term_pulls_towards_the_frozen_reference():
    model = tiny_model()
    trainer = make_trainer(model, kl=1.0, learning_rate=1e-3)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.05 * torch.randn(value.shape, generator=torch.Generator().manual_seed(3)))
    group = make_group(model, [1.0, 1.0, 1.0, 1.0])
    kl = [trainer.step([group], step=step).reference_kl for step in range(1, 12)]
    assert all(value is not None for value in kl)
    assert kl[-1] < 0.5 * kl[0]  # type: ignore[operator]


def test_gradients_are_clipped_and_reported_unclipped():
    model = tiny_model()
    groups = [make_group(model, [1.0, 0.0, 0.0, 1.0])]
    free = gradient_of(groups)
    norm = math.sqrt(sum(float((value**2).sum()) for value in free.values()))
    metrics = make_trainer(model, max_norm=norm / 10).step(groups, step=1)
    assert metrics.gradient_norm == pytest.approx(norm, rel=1e-4)
    left = math.sqrt(sum(float((value.grad**2).sum()) for value in model.parameters() if value.grad is not None))
    assert left == pytest.approx(norm / 10, rel=1e-3)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_return_that_is_no_number_stops_the_run_and_names_the_step(reward):
    model = tiny_model()
    with pytest.raises(TrainerError, match="step 7: expected finite returns"):
        make_trainer(model).step([make_group(model, [1.0, reward, 0.0, 0.0])], step=7)


def test_a_loss_that_is_no_number_stops_the_run_before_it_reaches_the_weights():
    model = tiny_model()
    before = weights_of(model)
    group = make_group(model, [1.0, 0.0, 0.0, 0.0])
    broken = group[0].trajectory
    assert broken is not None
    broken = replace(broken, logprobs=(0.0, 0.0, math.nan, *broken.logprobs[3:]))
    with pytest.raises(TrainerError, match="step 3, update 1: expected a finite loss and gradient"):
        make_trainer(model).step([[Member(reward=1.0, trajectory=broken), *group[1:]]], step=3)
    assert all(torch.equal(value, before[name]) for name, value in weights_of(model).items())
