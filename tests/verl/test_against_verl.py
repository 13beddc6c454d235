"""Our advantages inside verl, and verl's own functions beside ours on the same numbers: equal where they should be, and where not, named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from agentgym_cli.episode.types import Trajectory
from agentgym_cli.learn.local import learning_rate_at
from agentgym_cli.learn.losses import importance_weight, policy_loss, reference_kl
from agentgym_cli.learn.verl.seam import Played
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.algorithms import GrpoSpec, RlooSpec
from agentgym_cli.verbs.cluster_metrics import step_metrics
from agentgym_cli.verbs.verl_place import settings_of

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("ignore")]
core_algos: Any = pytest.importorskip("verl.trainer.ppo.core_algos")
protocol: Any = pytest.importorskip("verl.protocol")
estimator: Any = pytest.importorskip("agentgym_cli.learn.verl.estimator")
loop: Any = pytest.importorskip("agentgym_cli.learn.verl.loop")
GROUP, LENGTH = 4, 6


def batch(rewards: list[list[float | None]], seed: int = 1) -> Any:
    """Trajectories of scored members of each group: rewards on their last action tokens, ragged masks with holes."""
    generator = torch.Generator().manual_seed(seed)
    rows, masks, uids = [], [], []
    for number, members in enumerate(rewards):
        for reward in members:
            if reward is None:
                continue
            mask = torch.rand(LENGTH, generator=generator) < 0.7
            mask[int(torch.randint(1, LENGTH, (1,), generator=generator)) :] = False
            mask[0] = True
            last = int(mask.nonzero()[-1])
            paid = torch.zeros(LENGTH)
            paid[last] = reward
            rows.append(paid)
            masks.append(mask)
            uids.append(f"g{number}")
    logp = -torch.rand(len(rows), LENGTH, generator=generator) * 3
    old = logp + 0.4 * torch.randn(len(rows), LENGTH, generator=generator)
    return SimpleNamespace(paid=torch.stack(rows), mask=torch.stack(masks), uids=np.array(uids, dtype=object), logp=logp, old=old)


def ours(made: Any, spec: Any) -> torch.Tensor:
    """What verl gets from us."""
    advantages, _ = estimator.Estimator(spec)(made.paid, made.mask.long(), index=made.uids)
    return advantages  # type: ignore[no-any-return]


@pytest.mark.parametrize("warmup", [0, 3])
def test_the_learning_rate_rises_as_on_the_local_engine(warmup: int) -> None:
    engine: Any = pytest.importorskip("verl.workers.engine.fsdp.transformer_impl")
    config: Any = pytest.importorskip("verl.workers.config.optimizer")
    run = resolve("textcraft_grpo.yaml", ["profile=rehearsal", f"train.warmup_steps={warmup}", "train.learning_rate=0.8"]).run
    assert run.train is not None
    prefix = "actor_rollout_ref.actor.optim."
    told = {each.key.removeprefix(prefix): each.value for each in settings_of(run) if each.key.startswith(prefix)}
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.8)
    asked = SimpleNamespace(optimizer_config=config.FSDPOptimizerConfig(**told, total_training_steps=330), rank=1)
    schedule = engine.FSDPEngine._build_lr_scheduler(asked, optimizer)
    rates = []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8, 0.8] if warmup else [0.8] * 6)
    assert rates == pytest.approx([learning_rate_at(run.train, step) for step in range(1, 7)])


WHOLE: list[list[float | None]] = [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0]]


@pytest.mark.parametrize("std", [True, False])
def test_whole_groups_have_verls_own_advantages(std: bool) -> None:
    made = batch(WHOLE)
    theirs, _ = core_algos.compute_grpo_outcome_advantage(made.paid, made.mask.long(), made.uids, norm_adv_by_std_in_grpo=std)
    torch.testing.assert_close(ours(made, GrpoSpec(group_size=GROUP, normalize_std=std)), theirs, atol=1e-5, rtol=1e-5)
    left_out, _ = core_algos.compute_rloo_outcome_advantage(made.paid, made.mask.long(), made.uids)
    torch.testing.assert_close(ours(made, RlooSpec(group_size=GROUP)), left_out, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("first", "learned"),
    [([None, 1.0, 0.0, 0.0], True), ([None, None, None, 1.0], False), ([None, None, None, None], False)],
    ids=["1 of 4 failed", "3 of 4 failed", "4 of 4 failed"],
)
def test_promise_02_failed_members_leave_the_gradient_that_the_local_engine_has(first: list[float | None], learned: bool) -> None:
    rewards = [first, *WHOLE[:2]]
    made = batch(rewards)
    spec = GrpoSpec(group_size=GROUP)
    advantages = ours(made, spec)
    of_first = advantages[made.uids == "g0"]
    assert bool((of_first != 0).any()) is learned
    gradient = torch.autograd.grad(verls_loss(logp := made.logp.clone().requires_grad_(), made, advantages, "token-mean"), logp)[0]
    local = made.logp.clone().requires_grad_()
    loss = policy_loss(local, made.old, local_advantages(rewards, made, spec), made.mask, 0.2).surrogate / made.mask.sum()
    torch.testing.assert_close(gradient, torch.autograd.grad(loss, local)[0], atol=1e-6, rtol=1e-5)


def local_advantages(rewards: list[list[float | None]], made: Any, spec: GrpoSpec) -> torch.Tensor:
    """As the local engine computes them, from whole groups with their unscored members, by the formula and not by its code."""
    found, place = torch.zeros_like(made.paid), 0
    for members in rewards:
        scored = [reward for reward in members if reward is not None]
        for reward in scored:
            if len(scored) >= 2:
                mean = sum(scored) / len(scored)
                std = (sum((each - mean) ** 2 for each in scored) / (len(scored) - 1)) ** 0.5
                found[place][made.mask[place]] = (reward - mean) / (std + 1e-6)
            place += 1
    return found


class Numbers(dict[str, Any]):
    """verl's settings of an actor, as far as its loss reads them."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def verls_loss(logp: torch.Tensor, made: Any, advantages: torch.Tensor, mode: str, *, weights: torch.Tensor | None = None) -> torch.Tensor:
    config = Numbers(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=1e9, global_batch_info={})
    loss, _ = core_algos.compute_policy_loss_vanilla(made.old, logp, advantages, made.mask.long(), mode, config, rollout_is_weights=weights)
    return loss  # type: ignore[no-any-return]


def test_the_clipped_surrogate_is_the_same() -> None:
    made = batch(WHOLE)
    advantages = torch.randn(made.logp.shape, generator=torch.Generator().manual_seed(2))
    mine = policy_loss(made.logp, made.old, advantages, made.mask, 0.2).surrogate / made.mask.sum()
    torch.testing.assert_close(verls_loss(made.logp, made, advantages, "token-mean"), mine)


@pytest.mark.parametrize("cap", [1.0, 1.5, 2.0])
def test_the_truncated_importance_correction_is_the_same(cap: float) -> None:
    run = resolve("textcraft_grpo.yaml", ["profile=rehearsal", f"train.importance_cap={cap}"]).run
    prefix = "algorithm.rollout_correction."
    told = {each.key.removeprefix(prefix): each.value for each in settings_of(run) if each.key.startswith(prefix)}
    made = batch(WHOLE)
    sampled = made.old + 0.8 * torch.randn(made.old.shape, generator=torch.Generator().manual_seed(4))
    advantages = torch.randn(made.logp.shape, generator=torch.Generator().manual_seed(5))
    corrections: Any = pytest.importorskip("verl.trainer.ppo.rollout_corr_helper")
    given = protocol.DataProto.from_dict(
        tensors={"old_log_probs": made.old, "rollout_log_probs": sampled, "response_mask": made.mask.long()},
    )
    corrected, measured = corrections.compute_rollout_correction_and_add_to_batch(given, told)
    theirs = verls_loss(made.logp, made, advantages, "token-mean", weights=corrected.batch["rollout_is_weights"])
    weight = importance_weight(made.old, sampled, cap=cap)
    assert 0 < int((weight[made.mask] == cap).sum()) < int(made.mask.sum()), "some are capped and some are not"
    mine = policy_loss(made.logp, made.old, advantages, made.mask, 0.2, weight=weight).surrogate / made.mask.sum()
    torch.testing.assert_close(theirs, mine)
    torch.testing.assert_close(corrected.batch["response_mask"].bool(), made.mask)
    assert step_metrics(measured)["importance_weight"] == pytest.approx(float(weight[made.mask].mean()))


def test_the_mean_over_episodes_is_the_same() -> None:
    made = batch(WHOLE)
    advantages = torch.randn(made.logp.shape, generator=torch.Generator().manual_seed(3))
    each = [
        policy_loss(made.logp[row : row + 1], made.old[row : row + 1], advantages[row : row + 1], made.mask[row : row + 1], 0.2).surrogate
        / made.mask[row].sum()
        for row in range(len(made.logp))
    ]
    torch.testing.assert_close(verls_loss(made.logp, made, advantages, "seq-mean-token-mean"), torch.stack(each).mean(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("mine", "theirs"), [("k1", "kl"), ("k2", "mse"), ("k3", "low_var_kl")])
def test_estimates_of_the_divergence_are_the_same_up_to_verls_cut(mine: Any, theirs: str) -> None:
    made = batch(WHOLE)
    summed = core_algos.kl_penalty(made.logp, made.old, theirs)[made.mask].sum()
    torch.testing.assert_close(reference_kl(made.logp, made.old, made.mask, mine), summed)
    # Where the difference is large, verl cuts k3 at 10: exp(3) - 3 - 1 is 16.09.
    if mine == "k3":
        far = core_algos.kl_penalty(torch.tensor([-3.0]), torch.tensor([0.0]), theirs)
        assert float(far) == 10.0
        assert float(reference_kl(torch.tensor([-3.0]), torch.tensor([0.0]), torch.tensor([True]), "k3")) == pytest.approx(16.0855, abs=1e-3)


def test_a_trajectory_is_handed_over_from_its_first_to_its_last_action_token() -> None:
    mask = (False, False, True, True, False, True)
    item = Trajectory(
        token_ids=(5, 6, 7, 8, 9, 10), action_mask=mask, logprobs=(0.0, 0.0, -0.1, -0.2, 0.0, -0.3), policy_version=2, versions=((2, 2), (3, 1))
    )
    given = loop.output_of(Played(trajectory=item, reward=0.5, turns=2))
    assert (given.prompt_ids, given.response_ids, given.response_mask) == ([5, 6], [7, 8, 9, 10], [1, 1, 0, 1])
    fields = given.as_dict()
    assert fields["rm_scores"].tolist() == [0.0, 0.0, 0.0, 0.5]
    torch.testing.assert_close(fields["rollout_log_probs"], torch.tensor([-0.1, -0.2, 0.0, -0.3]))
    assert (fields["extra_fields"]["min_global_steps"], fields["extra_fields"]["max_global_steps"]) == (2, 3)


def test_a_batch_without_a_trajectory_is_said_to_whoever_keeps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    # verl's own comes first: ours is loaded by its hook.
    pytest.importorskip("verl.trainer.ppo.v1.trainer_sync")
    trainer: Any = pytest.importorskip("agentgym_cli.learn.verl.trainer")
    said: list[Any] = []
    monkeypatch.setattr(trainer, "say_once", lambda desk, do, **fields: said.append((desk, do, fields)))
    told = object.__new__(trainer.ToldTrainer)
    told._setup_told, told.global_steps = SimpleNamespace(desk="desk"), 3
    with pytest.raises(RuntimeError, match="step 3: expected a trajectory, got none"):
        told._balance_batch(SimpleNamespace(keys=[], tags=[]), {})
    assert said == [("desk", "empty", {"step": 3})]
