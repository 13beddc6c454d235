"""Which of verl's own keys an estimate reads, and what they say."""

from __future__ import annotations

import pytest

from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.memory import memory_keys
from agentgym_cli.learn.verl.sft.keys import IMITATING
from agentgym_cli.recipe.schema.computing import ClusterSpec, Offload

ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


def cluster(*verl: str, offload: Offload = "none") -> ClusterSpec:
    return ClusterSpec(gpus_per_node=8, tensor_parallel=2, offload=offload, verl=verl)


def test_without_words_of_verls_a_launch_is_as_it_is_set() -> None:
    found = memory_keys(cluster())
    assert (found.share, found.batched_tokens, found.tensor_parallel, found.pass_tokens) == (0.5, 8192, 2, None)
    assert (found.fused_head, found.checkpointing, found.offload, found.read, found.unread) == (False, True, "none", (), ())


def test_words_of_verls_win() -> None:
    said = (
        f"{ROLLOUT}.gpu_memory_utilization=0.7",
        f"{ROLLOUT}.max_num_batched_tokens=16384",
        f"{ROLLOUT}.tensor_model_parallel_size=4",
        f"{ACTOR}.ppo_max_token_len_per_gpu=4096",
        "critic.ppo_infer_max_token_len_per_gpu=9000",
        "actor_rollout_ref.model.use_fused_kernels=True",
        "actor_rollout_ref.model.enable_gradient_checkpointing=false",
    )
    found = memory_keys(cluster(*said, f"{ROLLOUT}.gpu_memory_utilization=0.6"))
    assert (found.share, found.batched_tokens, found.tensor_parallel, found.pass_tokens) == (0.6, 16_384, 4, 9000)
    assert (found.fused_head, found.checkpointing) == (True, False)
    assert found.read == tuple(text.partition("=")[0] for text in said)


@pytest.mark.parametrize(
    ("field", "said", "offload"),
    [
        ("streamed", (), "streamed"),
        ("all", ("offload_policy=true",), "streamed"),
        ("none", ("param_offload=true", "optimizer_offload=true"), "all"),
        ("none", ("optimizer_offload=true",), "optimizer"),
        ("none", ("param_offload=true",), "none"),
        ("all", ("param_offload=false",), "optimizer"),
        ("all", ("optimizer_offload=false",), "none"),
    ],
)
def test_what_is_offloaded_is_read_from_the_field_and_from_verls_words(field: Offload, said: tuple[str, ...], offload: Offload) -> None:
    assert memory_keys(cluster(*(f"{ACTOR}.fsdp_config.{text}" for text in said), offload=field)).offload == offload


def test_what_may_change_memory_and_is_not_read_is_named_and_what_changes_none_is_not() -> None:
    silent = (
        "trainer.logger=[console]",
        f"{ACTOR}.optim.lr=1e-6",
        f"{ROLLOUT}.temperature=0.5",
        "actor_rollout_ref.ref.fsdp_config.param_offload=false",
    )
    loud = (f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", f"{ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype", "critic.fsdp.param_offload")
    assert memory_keys(cluster(*silent, *(f"{key}=true" for key in loud))).unread == loud


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        (f"{ROLLOUT}.gpu_memory_utilization=1.5", "gpu_memory_utilization above 0 and at most 1, got 1.5"),
        (f"{ROLLOUT}.gpu_memory_utilization=half", "gpu_memory_utilization to be a number, got 'half'"),
        (f"{ROLLOUT}.max_num_batched_tokens=0", "max_num_batched_tokens above 0, got 0"),
        ("actor_rollout_ref.model.use_fused_kernels=maybe", "use_fused_kernels to be true or false, got 'maybe'"),
        (f"{ROLLOUT}.gpu_memory=0.5", "expected a key of verl 0.9.1, got 'actor_rollout_ref.rollout.gpu_memory'"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(said: str, claim: str) -> None:
    with pytest.raises(RecipeError, match=claim):
        memory_keys(cluster(said))


def test_the_trainer_of_demonstrations_has_names_of_its_own() -> None:
    said = (
        "data.max_token_len_per_gpu=4096",
        "model.use_fused_kernels=true",
        "engine.offload_policy=true",
        "model.enable_gradient_checkpointing=false",
    )
    found = memory_keys(cluster(*said), IMITATING)
    assert (found.pass_tokens, found.fused_head, found.offload, found.checkpointing, found.unread) == (4096, True, "streamed", False, ())
    assert found.read == tuple(text.partition("=")[0] for text in said)
