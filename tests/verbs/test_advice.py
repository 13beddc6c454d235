"""What makes a run fit: every piece of advice is a setting of its recipe that, once set, makes it fit, or is said to be none."""

from __future__ import annotations

import shlex
from functools import cache

import pytest

from agentgym_cli.verbs.advice import Way
from agentgym_cli.verbs.capacity import CapacityAnswer, Question, estimate_capacity

TEXTCRAFT = "recipes/textcraft_grpo.yaml"
BIG = "budgets.context_tokens=8192"


@cache
def asked(*overrides: str, gpu: str | None = None, gpus: int | None = None, recipe: str = TEXTCRAFT) -> CapacityAnswer:
    return estimate_capacity(Question(recipe=recipe, overrides=overrides, gpu=gpu, gpus=gpus))


def test_what_fits_needs_no_change() -> None:
    assert asked(gpu="h100-80g", gpus=8).changes == ()


CASES: list[tuple[tuple[str, ...], str | None]] = [
    (("profile=gpu", "cluster.gpus_per_node=1"), "rtx4090-24g"),
    (("profile=gpu", "cluster.gpus_per_node=8"), "l40s-48g"),
    (("profile=gpu", "policy.model.path=Qwen/Qwen2.5-72B-Instruct"), "h100-80g"),
    (("profile=gpu", "policy.model.path=Qwen/Qwen2.5-14B", "train.algorithm.kl_place=reward", "train.algorithm.kl_estimate=k1"), "a100-40g"),
    (("profile=laptop", "engine.slots=4000000"), None),
    (("profile=laptop", "engine.pass_tokens=10000000", "engine.slots=64"), "l4-24g"),
    (("profile=laptop", "policy.model.path=Qwen2.5-0.5B", BIG, "engine.pass_tokens=16384"), "l4-24g"),
    (("profile=laptop", "policy.model.path=Qwen2.5-3B", BIG, "train.parameters=all"), "a100-80g"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("overrides", "gpu"), CASES)
def test_every_setting_that_is_advised_makes_it_fit(overrides: tuple[str, ...], gpu: str | None) -> None:
    found = asked(*overrides, gpu=gpu)
    assert not found.fits and found.changes
    for way in found.changes:
        kept = [text for text in overrides if text.partition("=")[0] not in {said.partition("=")[0] for said in way.overrides}]
        assert asked(*kept, *way.overrides, gpu=way.gpu or gpu).fits, way
        if way.gpu is None:
            assert tuple(shlex.split(way.says)) == way.overrides


@pytest.mark.slow
def test_settings_and_a_larger_kind_together_are_found_where_neither_is_enough() -> None:
    # 405,853,388,800 numbers in bfloat16 are 94.5 GiB on each of eight GPUs: more than 79.1, less than 139.8.
    (way,) = asked("profile=gpu", "policy.model.path=Llama-3.1-405B", gpu="h100-80g").changes
    assert way.gpu == "h200-141g" and "cluster.tensor_parallel=8" in way.overrides
    assert asked("profile=gpu", "policy.model.path=Llama-3.1-405B", *way.overrides, gpu=way.gpu).fits


def ways(*overrides: str, gpu: str | None = None, gpus: int | None = None) -> list[Way]:
    return list(asked(*overrides, gpu=gpu, gpus=gpus).changes)


def test_the_cheapest_settings_of_verl_are_advised_as_they_are_said() -> None:
    # 12 bytes of 14.8e9 numbers are 20.6 GiB of each of 8 devices of 39.3 beside half of it: with moments away they are 6.9 GiB; logits of 10,752
    # tokens are 24.4 GiB beside 27.5 GiB of weights, gradients and moments: in pieces they are 0.6
    found = ways("profile=gpu", "policy.model.path=Qwen/Qwen2.5-14B", gpu="a100-40g")
    assert "verl.actor_rollout_ref.model.use_fused_kernels=true" in found[0].overrides


def test_a_reference_is_in_no_gpus_way() -> None:
    assert not any("kl_coefficient" in way.says for way in ways(gpu="rtx4090-24g", gpus=1))


def test_more_gpus_are_tried_in_every_number_that_machines_have() -> None:
    # 36 episodes of an update can be shared by 1, 2, 3, 4, 6, 9, 12, 18 or 36 GPUs, of which machines of 8 have 1 to 4 and 6
    fits = ["train.tasks_per_step=9", "train.updates_per_step=1", "train.algorithm.group_size=4", "budgets.context_tokens=4096"]
    found = ways("profile=gpu", *fits, "cluster.gpus_per_node=2", gpu="a100-80g")
    assert ("cluster.nodes=1", "cluster.gpus_per_node=3") in [way.overrides for way in found]


def test_a_policy_is_spread_beside_more_gpus() -> None:
    # 135 GiB of weights have to be on two GPUs of 141 GB at least while training state lies beside them
    found = ways("profile=gpu", "policy.model.path=Qwen/Qwen2.5-72B", "budgets.context_tokens=4096", gpu="h200-141g")
    assert any({part.partition("=")[0] for part in way.overrides} >= {"cluster.nodes", "cluster.tensor_parallel"} for way in found)


def test_adapters_are_advised_to_the_engine_that_has_them_alone() -> None:
    # 16 bytes of 3.1e9 numbers are 46 GiB; 4 bytes of them, and what adapters and their second copies take, are less than 40
    local = ways("profile=laptop", "policy.model.path=Qwen2.5-3B", "budgets.context_tokens=2048", "train.parameters=all", gpu="a100-40g")
    assert any("'train.lora={rank: 16, alpha: 16}'" in way.says for way in local)
    assert not any("lora" in way.says for way in ways(gpu="rtx4090-24g", gpus=1))


def test_nothing_helps_a_model_that_is_far_too_large() -> None:
    assert ways("profile=laptop", "policy.model.path=Llama-3.1-405B", gpu="l4-24g") == []


@pytest.mark.slow
def test_what_learns_demonstrations_on_verl_is_advised_no_key_of_the_other_trainer() -> None:
    sft = ("profile=gpu", "train.algorithm={kind: sft, demonstrations: [{kind: oracle, count: 12}]}", "train.updates_per_step=1")
    found = ways(*sft, gpu="rtx4090-24g", gpus=8)
    assert found and not [way for way in found if "actor_rollout_ref" in way.says]
    # The same memory, learned from played episodes, is advised one.
    assert [way for way in ways("profile=gpu", gpu="rtx4090-24g", gpus=8) if "actor_rollout_ref" in way.says]
