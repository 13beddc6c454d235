"""Bytes worked out by hand, and against peaks that others published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.capacity.gpus import GIB
from agentgym_cli.capacity.layout import colocated, one_process, separate
from agentgym_cli.capacity.sampling import sampling_memory
from agentgym_cli.capacity.training import activation_bytes, training_memory
from agentgym_cli.capacity.verdict import MEMORY_ERROR, judge
from agentgym_cli.recipe.schema.computing import Offload
from tests.capacity.shapes import TINY, device, known, plan, work

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def test_one_process_by_hand() -> None:
    found = training_memory(TINY, work(TINY, tokens=8, reference=True), one_process(checkpointing=False))
    # 180 numbers x 4, 4, 8 and 4 bytes; logits 16 x 8 tokens x 10; nothing is gathered
    assert (found.weights, found.gradients, found.optimizer, found.reference) == (720, 720, 1440, 720)
    assert (found.logits, found.gathered, found.critic, found.host) == (1280, 0, 0, 0)
    # a token: 16 x 4 hidden + 2 x 4 bytes x (4 + 2) + 4 x 4 bytes x 6 = 64 + 48 + 96
    assert found.activations == 8 * 208
    assert found.total == 3600 + 1280 + 8 * 208


def test_sharding_by_hand() -> None:
    found = training_memory(TINY, work(TINY, tokens=8, reference=True, critic=True), colocated(4))
    # 180 / 4 = 45 numbers; a critic has 4 more for its value, 46 a device, of which weights 4 and moments 8 bytes stay while the policy is updated,
    # and 1 more number's gradient than the policy's; the reference is float32 in the host's memory
    assert (found.weights, found.gradients, found.optimizer, found.reference, found.critic) == (180, 180, 360, 0, 46 * 12 + 4)
    assert (found.host, found.resting) == (180, 45 * 12 + 46 * 12)
    # whole: embedding 40 and two layers of 136 in bfloat16, gradients of the embedding in float32
    assert found.gathered == 2 * (40 + 2 * 136) + 4 * 40


def test_checkpointing_keeps_inputs_and_one_layer_with_its_gradients() -> None:
    # bfloat16: a layer 16 x 4 + 4 x 6 + 8 x 6 = 136; its input 8
    assert activation_bytes(TINY, checkpointing=False, half=True) == 136
    assert activation_bytes(replace(TINY, layers=10), checkpointing=True, half=True) == 10 * 8 + 2 * 136


def test_adapters_keep_no_gradients_of_the_model() -> None:
    found = training_memory(TINY, work(TINY, tokens=8, adapters=24, reference=True), colocated(1))
    assert (found.weights, found.gradients, found.optimizer, found.reference) == (4 * (180 + 24), 4 * 24, 8 * 24, 0)


def test_a_critic_on_gpus_learns_whole_beside_a_policy_of_adapters() -> None:
    found = training_memory(TINY, work(TINY, tokens=8, adapters=24, critic=True), colocated(1))
    # 184 numbers with weight, gradient and two moments while it learns, when the policy's 24 gradients are not there
    assert found.critic == 184 * 16 - 24 * 4


def test_adapters_in_one_process_by_hand() -> None:
    adapted = replace(work(TINY, tokens=8, adapters=24, reference=True, critic=True), merged=TINY.target_parameters(("q_proj", "v_proj")))
    found = judge(replace(plan(TINY, layout=one_process(checkpointing=False)), work=adapted))
    assert found.training is not None
    # the reference and the critic are copies with adapters of their own; of the critic they and 4 numbers of its head learn
    assert found.training.reference == 4 * (180 + 24)
    assert found.training.critic == 4 * (180 + 24 + 4) + 12 * (24 + 4)
    # fused: 4 x (4 + 4) queries, keys and values and 2 x 4 x 6 of the MLP; merged: q 4 x 4 and v 4 x 2
    assert found.sampling.weights == 4 * (32 + 48) + 4 * (16 + 8)


def test_a_sampler_takes_its_share_of_a_card_whatever_it_needs() -> None:
    alone = judge(replace(plan(known("Qwen2.5-7B"), gib=80, layout=replace(colocated(1), share=0.9), context=1024), work=None))
    taken = int(0.9 * 80 * GIB)
    assert alone.sequences == (taken - alone.sampling.weights - alone.sampling.working) // alone.sampling.cache_per_sequence
    assert alone.peak == taken + int(1.5 * GIB)
    # what it needs, 14.2 and 1.7 GiB and one sequence, is surely there, although taking nine tenths leaves less than the stated error of the card
    assert alone.surely and alone.peak * 1.2 > 80 * GIB


def test_a_share_that_is_too_small_or_too_large_is_named() -> None:
    # 15.9 GiB and one sequence: a card of 17.5 GiB has room for them beside 1.5 GiB, and nine tenths of it are 15.75
    tight = judge(replace(plan(known("Qwen2.5-7B"), gib=17.5, layout=replace(colocated(1), share=0.9), context=16), work=None))
    assert tight.sampling.least < (17.5 - 1.5) * GIB
    assert (tight.fits, tight.lacking, tight.sequences) == (False, "sampler working memory in 0.9 of the device", 0)
    # 12 bytes of 7.6e9 numbers on 8 devices are 10.6 GiB: beside them and 1.5 GiB a card of 80 has room for 67.8 GiB, 0.84 of it
    for share, fits in ((0.84, True), (0.86, False)):
        found = judge(plan(known("Qwen2.5-7B"), layout=replace(colocated(8), share=share), context=1024))
        assert found.lacking == (None if fits else "the sampler's share beside training state")


TINY_STATE = {"none": (720 + 1440, 0), "optimizer": (720, 1440), "all": (0, 720 + 1440), "streamed": (0, 720 + 720 + 1440)}
"""Of 180 numbers, weights 4 bytes, gradients 4 and moments 8: what is on the device while episodes are played, and in the host's memory."""


@pytest.mark.parametrize("offload", ["none", "optimizer", "all", "streamed"])
def test_offloaded_state_lies_on_the_host_while_episodes_are_played(offload: Offload) -> None:
    found = training_memory(TINY, work(TINY, tokens=8), replace(colocated(1), offload=offload))
    assert (found.resting, found.host) == TINY_STATE[offload]
    # during an update all of it is on the device, unless it is streamed
    assert found.resident == (0 if offload == "streamed" else 16 * 180)


@pytest.mark.parametrize(("offload", "critic"), [("none", 184 * 12 + 16), ("optimizer", 184 * 4 + 48), ("all", 64), ("streamed", 0)])
def test_policy_and_critic_take_turns_by_hand(offload: Offload, critic: int) -> None:
    # a critic has 184 numbers of 16 bytes, the policy 180. While one is updated the other rests; the critic's 4 numbers more are the fuller moment by
    # what of them does not rest: gradients; gradients and moments; all
    found = training_memory(TINY, work(TINY, tokens=8, critic=True), replace(colocated(1), offload=offload))
    assert found.critic == critic
    host = training_memory(TINY, work(TINY, tokens=8, critic=True, reference=True), replace(colocated(1), offload=offload)).host
    assert host == found.host + 4 * 180


def test_the_cache_of_7b_by_hand() -> None:
    found = sampling_memory(known("Qwen2.5-7B"), colocated(8), context=10_750, sequences=256)
    # blocks of 16 tokens: 10,752; 32 of 256 episodes on each GPU
    assert (found.cache_per_token, found.cache_per_sequence, found.wanted) == (57_344, 57_344 * 10_752, 32)


def test_tensor_parallel_halves_weights_and_cache() -> None:
    one, two = (sampling_memory(known("Qwen2.5-7B"), colocated(8, tensor_parallel=n), context=1024, sequences=64) for n in (1, 2))
    assert (two.cache_per_token, two.weights, two.wanted) == (one.cache_per_token // 2, one.weights // 2, 2 * one.wanted)


def test_heads_that_are_fewer_than_devices_are_kept_several_times() -> None:
    shape = known("Qwen2.5-7B")
    four, eight = (sampling_memory(shape, colocated(8, tensor_parallel=n), context=1024, sequences=8) for n in (4, 8))
    assert four.cache_per_token == eight.cache_per_token == 57_344 // 4


def test_separate_devices_carry_one_burden_each() -> None:
    found = judge(plan(known("Qwen2.5-7B"), layout=separate(8, trainers=4)))
    assert found.training is not None
    assert found.peak == max(found.reserved + found.training.total, found.reserved + int(0.9 * 80 * GIB))


def test_colocated_devices_keep_training_state_while_they_sample() -> None:
    shape = known("Qwen2.5-7B")
    found = judge(plan(shape, layout=colocated(8), context=1024))
    assert found.training is not None
    room = 40 * GIB - found.sampling.weights - found.sampling.working
    assert found.sequences == 8 * (room // found.sampling.cache_per_sequence)
    assert found.peak == max(found.reserved + found.training.total, found.reserved + found.training.resting + 40 * GIB)


@pytest.mark.parametrize(
    ("name", "tokens", "gpus", "adapters", "fused", "peak"),
    [
        # benchmarks/results/BENCHMARKS.md of prime-rl, January 2026, peak memory in GiB: reinforcement with a fused head, then supervised without
        ("Qwen3-0.6B", 16_384, 1, False, True, 12.5),
        ("Qwen3-0.6B", 65_536, 1, False, True, 19.6),
        ("Qwen3-0.6B", 16_384, 1, True, True, 5.1),
        ("Qwen3-0.6B", 65_536, 1, True, True, 11.5),
        ("Qwen3-4B", 16_384, 8, False, True, 17.1),
        ("Qwen3-4B", 65_536, 8, False, True, 36.1),
        ("Qwen3-4B", 16_384, 8, True, True, 10.3),
        ("Qwen3-4B", 65_536, 8, True, True, 28.8),
        ("Qwen3-4B", 16_384, 1, True, True, 23.3),
        ("Qwen3-4B", 65_536, 1, True, True, 42.0),
        ("Qwen3-0.6B", 8_192, 1, False, False, 31.7),
        ("Qwen3-0.6B", 16_384, 1, False, False, 52.8),
        ("Qwen3-4B", 16_384, 8, False, False, 54.6),
        ("Qwen3-4B", 65_536, 8, False, False, 171.5),
    ],
)
def test_published_peaks_are_met_within_the_stated_error(name: str, tokens: int, gpus: int, adapters: bool, fused: bool, peak: float) -> None:
    shape = known(name)
    beside = shape.adapter_parameters(16, ALL) if adapters else 0
    found = training_memory(shape, work(shape, tokens=tokens, adapters=beside), replace(colocated(gpus), fused_head=fused))
    assert found.total / GIB == pytest.approx(peak, rel=MEMORY_ERROR)


def test_a_published_cache_is_met_within_the_stated_error() -> None:
    # Llama-3.1-8B in vLLM on a 23.58 GiB card, 0.90 of it used, 20,000 tokens read at once: 1,952 blocks of 16 tokens were left for the cache
    shape = known("Llama-3.1-8B")
    found = sampling_memory(shape, colocated(1), context=16, sequences=1)
    read = 20_000 * (6 * shape.intermediate + 3 * shape.hidden)
    left = 0.90 * 23.58 * GIB - found.weights - read - 0.35 * GIB
    assert left / found.cache_per_token == pytest.approx(1952 * 16, rel=MEMORY_ERROR)


def test_what_does_not_fit_first_is_named() -> None:
    assert judge(plan(known("Qwen2.5-7B"), gib=20)).lacking == "training weights"
    assert judge(plan(known("Qwen2.5-0.5B"), gib=12, context=8192)).lacking == "training logits"
    sampled = replace(plan(known("Qwen2.5-7B"), gib=14), work=None)
    assert judge(sampled).lacking == "sampler weights in 0.5 of the device"


def test_a_device_without_room_holds_no_episode() -> None:
    found = judge(plan(known("Qwen2.5-7B"), gib=1))
    assert (found.fits, found.sequences) == (False, 0)
    assert found.margin < 0
    assert device(1).memory == GIB
