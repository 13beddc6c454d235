"""Answers for shipped recipes, what cannot be meant, and what a stored run adds."""

from __future__ import annotations

from functools import cache

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.report.statistics.intervals import wilson
from agentgym_cli.report.statistics.power import smallest_apart
from agentgym_cli.verbs.capacity import CapacityAnswer, Question, estimate_capacity
from agentgym_cli.verbs.evaluation_size import fewest, independent
from agentgym_cli.verbs.preflight import preflight
from agentgym_cli.verbs.progress import Silent
from tests.verbs.frozen_runs import prepared

TEXTCRAFT = "recipes/textcraft_grpo.yaml"


@cache
def asked(*overrides: str, **words: object) -> CapacityAnswer:
    return estimate_capacity(Question(recipe=TEXTCRAFT, overrides=overrides, **words))  # type: ignore[arg-type]


def test_textcraft_fits_eight_gpus_of_80_gb() -> None:
    found = asked(gpu="h100-80g", gpus=8)
    assert (found.profile, found.parameters, found.published) == ("gpu", 7_615_616_512, 7_615_616_512)
    assert found.fits and found.main.verdict.surely and found.changes == ()
    # 8 x floor((79.1 GiB / 2 - the sampler's 15.9) / 588 MiB): 41 on each
    assert found.main.verdict.sequences == 328
    assert [stage.name for stage in found.main.stages] == ["start", "horizon 10", "horizon 20", "horizon 30", "2 evaluations"]
    assert found.main.total.gpu_hours == pytest.approx(8 * found.main.total.seconds / 3600)


def test_textcraft_does_not_fit_one_gpu_of_24_gb_and_is_told_what_would() -> None:
    found = asked(gpu="rtx4090-24g", gpus=1)
    assert (found.fits, found.main.verdict.lacking) == (False, "training weights")
    # The sampler's weights of 14.2 GiB need more than half of it, logits of a context 24.4 GiB where they are whole, training state 113 GiB
    assert [len(way.overrides) for way in found.changes] == [3, 0]
    assert found.changes[1].gpu == "b200-180g"


def test_every_budget_stands_alone() -> None:
    verdict = asked(gpu="h100-80g", gpus=8).main.verdict
    assert verdict.training is not None
    assert len({verdict.training.total, verdict.sampling.weights, verdict.sampling.cache, verdict.reserved}) == 4
    assert verdict.peak < verdict.training.total + verdict.sampling.least + verdict.sampling.cache


def test_the_kind_of_the_profile_is_the_slowest_of_its_memory() -> None:
    assert asked("profile=gpu").main.plan.kind.name == "a100-80g"


def test_a_laptop_is_one_process() -> None:
    found = asked("profile=laptop")
    assert (found.main.plan.layout.placement, found.main.total.gpu_hours, found.alternatives) == ("one process", 0.0, ())


def test_an_evaluation_alone_trains_nothing() -> None:
    found = estimate_capacity(Question(recipe="recipes/agentgym_rl/textcraft_eval.yaml", gpu="h100-80g", gpus=2))
    assert found.main.verdict.training is None
    assert {name for name, busy in found.main.step.busy.items() if busy} <= {"env reset", "env step", "prefill", "decode"}
    assert [stage.name for stage in found.main.stages] == ["start", "1 evaluation"]
    assert not any("train" in each.name for each in found.alternatives)


def test_a_family_that_nobody_measured_is_said_to_be_guessed() -> None:
    found = estimate_capacity(Question(recipe="recipes/agentgym_rl/webarena_scaling.yaml"))
    assert any(note.startswith("servers of webarena were never measured") for note in found.notes)
    assert any(note.startswith("evaluations are not counted") for note in found.notes)
    assert asked("profile=laptop").notes == ()


def test_a_demonstration_is_not_played_and_an_exploration_is() -> None:
    found = estimate_capacity(Question(recipe="recipes/textcraft_agentevol.yaml")).main
    assert (found.load.played, found.step.play) == (False, 0.0)
    assert [stage.tokens_sampled > 0 for stage in found.stages if stage.name.endswith("explorations")] == [True]
    assert [stage.tokens_sampled for stage in found.stages if stage.name.startswith("horizon")] == [0.0]


def test_every_kind_is_judged() -> None:
    kinds = dict(asked(gpu="h100-80g", gpus=8).kinds)
    assert len(kinds) == 14
    assert kinds["a100-80g"].fits and not kinds["l4-24g"].fits


def test_a_worker_plays_and_a_copy_of_the_policy_takes_no_more_episodes_than_there_are_slots() -> None:
    # 256 episodes of a step; 64 slots for each of 1 or 8 workers; each of 8 copies has cache for 41, each of 2 for more than 64
    one, eight = asked(gpu="b200-180g", gpus=1).main, asked(gpu="h100-80g", gpus=8).main
    assert (one.plan.sequences, eight.plan.sequences) == (64, 256)
    parallel = asked("cluster.tensor_parallel=4", gpu="h100-80g", gpus=8).main
    assert (eight.resources.sequences, parallel.resources.policy_replicas, parallel.resources.sequences) == (41, 2, 64)
    assert asked("cluster.tensor_parallel=4", "engine.slots=256", gpu="h100-80g", gpus=8).main.resources.sequences > 64


def test_twice_the_slots_save_what_a_run_with_them_takes_less() -> None:
    few, more = (asked("profile=laptop", f"engine.slots={slots}").main for slots in (8, 16))
    assert few.doublings["slots"] == pytest.approx(few.step.total - more.step.total)
    assert few.doublings["slots"] > 0.3 * few.step.total


def test_alternatives_are_the_same_run_elsewhere() -> None:
    names = [each.name for each in asked(gpu="h100-80g", gpus=8).alternatives]
    assert names[:3] == ["4 x h100-80g", "16 x h100-80g", "4 train, 4 sample"]
    assert "8 x rtx4090-24g" in names and "8 x h100-80g" not in names


def test_more_gpus_are_never_slower() -> None:
    seconds = [asked(gpu="h100-80g", gpus=count).main.step.total for count in (4, 8, 16)]
    assert seconds == sorted(seconds, reverse=True)


def test_a_price_is_multiplied_out() -> None:
    found = asked(gpu="h100-80g", gpus=8, gpu_price=2.5).main.total
    assert found.cost == pytest.approx(2.5 * found.gpu_hours)


def test_without_a_gpu_there_is_no_cost_at_a_gpus_price() -> None:
    found = asked("profile=laptop", gpu_price=2.5)
    assert (found.main.total.cost, found.main.stages[0].cost) == (None, None)
    assert found.no_cost == "no GPU is used, and --gpu-price is of a GPU-hour"
    assert asked("profile=laptop").no_cost == "no price was given, and no GPU is used"
    assert asked(gpu="h100-80g", gpus=8).no_cost == "no price was given (--gpu-price)"
    assert asked(gpu="h100-80g", gpus=8, gpu_price=2.5).no_cost is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"gpu": "h100"}, "--gpu: expected one of .*, got 'h100'"),
        ({"gpus": 0}, "--gpus: expected 1 to 100,000, got 0"),
        ({"gpus": -8}, "--gpus: expected 1 to 100,000, got -8"),
        ({"gpus": 10**400}, "--gpus: expected 1 to 100,000, got 1000"),
        ({"gpu": "h100-80g", "gpu_price": 1e300}, "--gpu-price: expected a number above 0 and below"),
        ({"gpu": "h100-80g", "gpu_price": -1.0}, "--gpu-price: expected a number above 0 and below 1,000,000,000, got -1.0"),
        ({"gpu": "h100-80g", "gpu_price": float("nan")}, "--gpu-price: expected a number above 0"),
        ({"gpu": "h100-80g", "width": 0.0}, "--width: expected a share between 0 and 1"),
        ({"gpu": "h100-80g", "gap": 10.0}, "--difference: expected a share between 0 and 1"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(words: dict[str, object], said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        asked(**words)


def test_impossible_parallel_layouts_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"cluster.tensor_parallel: expected a divisor of the 6 GPUs of a node, got 4"):
        asked("cluster.tensor_parallel=4", gpu="h100-80g", gpus=6)
    with pytest.raises(RecipeError, match=r"train.tasks_per_step: expected episodes of an update that 24 GPUs can share, got 64"):
        asked(gpu="h100-80g", gpus=24)


def test_a_model_that_does_not_act_may_be_shorter_than_the_context() -> None:
    found = estimate_capacity(Question(recipe="recipes/package_prep.yaml"))
    assert found.main.plan.context == 32_768


def test_gpus_are_of_full_machines() -> None:
    assert asked(gpu="h100-80g", gpus=16).main.plan.layout.machines == 2
    assert asked(gpu="h100-80g", gpus=4).main.plan.layout.machines == 1
    with pytest.raises(RecipeError, match=r"--gpus: expected up to 8, or a multiple of 8 \(machines of 8 GPUs\), got 12"):
        asked(gpu="h100-80g", gpus=12)


def test_one_process_has_one_device() -> None:
    with pytest.raises(RecipeError, match="--gpus: expected 1 with engine local, which is one process on one device, got 8"):
        asked("profile=laptop", gpus=8)
    assert asked("profile=laptop", gpus=1).main.plan.layout.devices == 1


def test_a_gpu_for_one_process_is_the_key_that_takes_it() -> None:
    found = asked("profile=laptop", gpu="h100-80g")
    assert "one process takes a GPU only with engine.device=cuda; this is the estimate with it" in found.notes
    assert asked("profile=laptop", "engine.device=cuda", gpu="h100-80g").notes == ()


def test_an_unknown_model_is_told_what_is_known() -> None:
    with pytest.raises(
        RecipeError, match=r"policy.model.path: expected a folder with config.json or one of Qwen2.5-0.5B, .*, got 'nobody/Unheard-9B'"
    ):
        asked("policy.model.path=nobody/Unheard-9B", gpu="h100-80g")


def test_another_makers_model_of_a_published_name_is_refused_with_the_published_one() -> None:
    with pytest.raises(RecipeError, match=r"policy.model.path: expected a folder with config.json .*, got 'someone/Qwen2.5-7B'") as caught:
        asked("policy.model.path=someone/Qwen2.5-7B", gpu="h100-80g")
    assert caught.value.hint is not None and "policy.model.path=Qwen/Qwen2.5-7B" in caught.value.hint


def test_a_context_longer_than_the_models_positions_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"budgets.context_tokens: expected at most the 131,072 positions of Qwen/.*, got 200,000"):
        asked("budgets.context_tokens=200000", gpu="h100-80g")


def test_an_evaluation_for_a_width_is_the_smallest_whose_interval_is_so_narrow() -> None:
    plan = asked(gpu="h100-80g", gpus=8, width=0.1).evaluation
    assert plan is not None and plan.for_gap == ()
    sizes = {size.samples: size.tasks for size in plan.for_width}
    for tasks, narrow in ((sizes[1], True), ((sizes[1] or 0) - 1, False)):
        found = wilson(0.5 * (tasks or 0), tasks or 0)
        assert found is not None and (found.high - found.low <= 0.1) is narrow
    # samples lessen only the half of the variance that lies within a task
    assert sizes[4] == pytest.approx((sizes[1] or 0) * (0.5 / 4 + 0.5), abs=1)


def test_an_evaluation_for_a_difference_is_the_smallest_that_would_show_it() -> None:
    plan = asked(gpu="h100-80g", gpus=8, gap=0.1).evaluation
    assert plan is not None
    tasks = plan.for_gap[0].tasks or 0
    assert (smallest_apart(0.25 / tasks, 0.25 / tasks) or 1) <= 0.1 < (smallest_apart(0.25 / (tasks - 1), 0.25 / (tasks - 1)) or 0)
    # on the same tasks half of the variance falls out
    assert plan.for_gap_paired[0].tasks == pytest.approx(tasks / 2, abs=1)
    assert plan.for_gap[0].stage is not None and plan.for_gap[0].stage.episodes == tasks


def test_what_is_never_enough_has_no_size() -> None:
    assert fewest(lambda count: False) is None
    assert fewest(lambda count: count >= 7) == 7
    assert independent(10, 1) == 10


def test_promise_09_a_run_whose_memory_cannot_be_enough_is_refused_before_anything_is_loaded() -> None:
    # 10,000,000 slots x 256 tokens x 512 bytes: 1.2 TiB of cache
    with pytest.raises(RecipeError, match=r"memory: expected at most .* on cpu, got a peak of .*: cache of episodes does not fit"):
        preflight(prepared(TEXTCRAFT, "profile=laptop", "engine.slots=10000000"), Silent())


def test_a_preflight_gives_what_capacity_gives() -> None:
    found = preflight(prepared(TEXTCRAFT, "profile=laptop"), Silent())
    assert found is not None
    assert found.verdict == asked("profile=laptop").main.verdict
    assert found.total == asked("profile=laptop").main.total


def test_verls_own_keys_are_read_or_named() -> None:
    one, two = (
        asked(f"verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu={tokens}", "profile=gpu", gpu="h100-80g").main.verdict.training
        for tokens in (10_752, 21_504)
    )
    assert one is not None and two is not None
    assert (two.logits, two.activations) == (2 * one.logits, 2 * one.activations)
    notes = asked(
        "verl.actor_rollout_ref.rollout.enforce_eager=true", "verl.actor_rollout_ref.actor.ppo_max_token_len_per_gpu=8192", gpu="h100-80g"
    ).notes
    assert "of verl's keys, read: actor_rollout_ref.actor.ppo_max_token_len_per_gpu" in notes
    assert "of verl's keys, not read, whatever memory they take or save: actor_rollout_ref.rollout.enforce_eager" in notes
    assert "verl ends a run at its first trajectory of more than the 8,192 tokens of a pass; a context has 10,752" in notes


def test_a_reference_lies_in_the_memory_of_the_machine() -> None:
    training = asked(gpu="h100-80g", gpus=8).main.verdict.training
    assert training is not None
    # 4 bytes of 7,615,616,512 numbers over 8 processes
    assert (training.reference, training.host) == (0, 7_615_616_512 // 2)


def test_a_critic_says_its_values_before_it_learns() -> None:
    found = [
        asked("profile=gpu", f"train.algorithm={algorithm}", gpu="h100-80g").main.step.update
        for algorithm in ("{kind: reinforce_plus_plus}", "{kind: ppo, critic_learning_rate: 1e-5}")
    ]
    # forward 1, back 2, once more with checkpointing, and what was sampled once: 5; a critic as much, with its values in the place of the last
    assert found[1] / found[0] == pytest.approx(10 / 5)


IMITATED = (
    "profile=gpu",
    "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 480}]}",
    "train.tasks_per_step=64",
    "train.updates_per_step=1",
)


def test_demonstrations_on_verl_are_learned_while_nothing_samples() -> None:
    found = asked(*IMITATED, gpu="h100-80g").main
    assert (found.plan.layout.placement, found.plan.layout.share) == ("one after the other", 0.9)
    assert found.verdict.training is not None
    # the sampler has its share to itself: 0.9 of 79.1 GiB and what the driver keeps
    assert found.verdict.peak == int(0.9 * found.verdict.memory) + 3 * 2**29
    assert (found.step.weight_sync, found.step.play, found.load.in_flight) == (0.0, 0.0, 64)
    assert not any("sample" in each.name for each in asked(*IMITATED, gpu="h100-80g").alternatives)
    longer = asked(*IMITATED, "verl.data.max_token_len_per_gpu=21504", "cluster.offload=streamed", gpu="h100-80g")
    assert longer.main.verdict.training is not None
    assert longer.main.verdict.training.logits == 2 * found.verdict.training.logits
    assert longer.main.verdict.training.resident == 0
    assert "of verl's keys, read: data.max_token_len_per_gpu" in longer.notes


def test_a_checkpoint_holds_what_is_needed_to_go_on() -> None:
    # bytes at 1 GB/s: 12 of 7,615,616,512 numbers; a critic has 3,584 more; of adapters on GPUs their moments, 8 bytes of 28 x 16 x (7,168 + 4,096)
    numbers, adapters = 7_615_616_512, 28 * 16 * 11_264
    ppo, lora = "train.algorithm={kind: ppo, critic_learning_rate: 1e-5}", "train.lora={rank: 16, alpha: 16}"
    found = [asked("profile=gpu", *more, gpu="h100-80g").main.services.checkpoint for more in ((), (ppo,), (lora,))]
    assert found == pytest.approx([12 * numbers / 1e9, 12 * (2 * numbers + 3_584) / 1e9, (4 * (numbers + adapters) + 8 * adapters) / 1e9])
