"""Times of a step worked out by hand, and what never gets worse with more of something."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.capacity.gpus import find_gpu
from agentgym_cli.capacity.layout import colocated, one_process
from agentgym_cli.capacity.service import NOTHING, Learning, Load, Services, assumed_services
from agentgym_cli.capacity.throughput import Resources, doublings, enough, step_time
from agentgym_cli.recipe.schema.computing import Offload
from tests.capacity.shapes import TINY, device, known

OFFLOADS: tuple[Offload, ...] = ("none", "optimizer", "all", "streamed")
LOAD = Load(
    episodes=8,
    in_flight=8,
    horizon=5,
    mean_turns=3.0,
    prompt_tokens=30.0,
    observation_tokens=10.0,
    response_tokens=20.0,
    checkpoint_every=10,
)
SERVICES = Services(
    env_reset=0.5, env_step=0.2, prefill_token=0.001, decode_fixed=0.01, decode_row=0.005, update=7.0, weight_sync=2.0, checkpoint=30.0
)
RESOURCES = Resources(env_replicas=4, env_places=1.0, policy_replicas=2, sequences=4)


def test_a_step_by_hand() -> None:
    found = step_time(LOAD, SERVICES, RESOURCES)
    # Of 8 in flight b a replica decode: 2 b (1 + 0.2 / turn) = 8, where a turn takes 20 x (0.01 + 0.005 b) + b x 20 x 0.001 = 0.2 + 0.12 b:
    # 0.12 b^2 - 0.08 b - 0.8 = 0
    batch = (0.08 + math.sqrt(0.08**2 + 4 * 0.12 * 0.8)) / 0.24
    turn = 0.2 + 0.12 * batch
    # 8 episodes go round in turn + 0.2 s; the worlds could make 4 / 0.2 = 20 turns a second
    rate = 8 / (turn + 0.2)
    # alone: 20 x 0.015 + 20 x 0.001 = 0.32 s; two turns more than the mean; resets 8 x 0.5 / 4
    assert found.play == pytest.approx(1.0 + 24 / rate + 2 * (0.32 + 0.2))
    assert (found.update, found.weight_sync, found.checkpoint) == (7.0, 2.0, 3.0)
    assert found.total == pytest.approx(found.play + 12.0)
    assert found.policy_utilisation == pytest.approx(rate * turn / 8)
    assert found.env_utilisation == pytest.approx(rate * 0.2 / 4)
    assert found.turn_seconds == pytest.approx(turn + 0.2)
    assert found.busy["env step"] == pytest.approx((24 / 4 + 2) * 0.2)
    assert found.busy["decode"] == pytest.approx(24 / (2 * batch) * (0.2 + 0.1 * batch) + 2 * 0.3)
    assert found.busy["prefill"] == pytest.approx(24 / (2 * batch) * 0.02 * batch + 2 * 0.02)
    assert found.slowest == "update"


def test_a_slow_world_holds_a_step_up() -> None:
    found = step_time(LOAD, replace(SERVICES, env_step=5.0, update=0.1), RESOURCES)
    # 4 places of 5 s make 0.8 turns a second: 30 s for 24 turns, and 2 x 5.32 s for the tail
    assert found.env_utilisation == 1.0
    assert found.play == pytest.approx(1.0 + 30 + 2 * 5.32)
    assert found.slowest == "env step"
    saved = doublings(LOAD, replace(SERVICES, env_step=5.0, update=0.1), RESOURCES, cached=8)
    assert max(saved, key=lambda name: saved[name]) == "env replicas"


def test_twice_the_slots_are_twice_the_episodes_at_work_where_the_cache_holds_them() -> None:
    few, one = replace(LOAD, in_flight=2), replace(RESOURCES, policy_replicas=1, sequences=2)
    saved = step_time(few, SERVICES, one).total - step_time(replace(few, in_flight=4), SERVICES, replace(one, sequences=4)).total
    found = doublings(few, SERVICES, one, cached=4)
    assert saved > 0
    assert found["slots"] == pytest.approx(saved)
    assert doublings(few, SERVICES, one, cached=2)["slots"] < saved
    assert doublings(LOAD, SERVICES, RESOURCES, cached=8)["slots"] == 0.0


def test_stored_data_is_not_played() -> None:
    found = step_time(replace(LOAD, played=False), SERVICES, RESOURCES)
    assert (found.play, found.total) == (0.0, 12.0)
    assert {name for name, seconds in found.busy.items() if seconds} == {"update", "weight sync", "checkpoint"}


def test_tokens_of_a_step_by_hand() -> None:
    # 8 episodes x 3 turns x 20 tokens; contexts 30, 60 and 90 tokens long
    assert LOAD.sampled == 480
    assert LOAD.read == 8 * (30 + 60 + 90)
    assert LOAD.trajectory == 30 + 3 * 30


def test_failures_are_made_again() -> None:
    # one of two attempts fails, at most three an episode: 1 + 1/2 + 1/4; of 8 episodes one has no result
    found = replace(LOAD, failures=0.5, most_attempts=3)
    assert found.attempts == 8 * 1.75
    # 7 attempts fail on the way, at a turn of theirs: 1, 2 or 3 of three, 2 on average; 7 come to their third
    assert found.turns == 7 * 2 + 7 * 3
    # their contexts are 30, 60 and 90 tokens long: 180 in all, and (30 + 90 + 180) / 3 on the way
    assert found.read == 7 * 100 + 7 * 180
    assert replace(found, most_attempts=1).turns == 4 * 2 + 4 * 3
    assert replace(found, failures=1.0).attempts == 24


def test_times_follow_from_a_device_by_hand() -> None:
    load = replace(LOAD, prompt_tokens=0.0, observation_tokens=0.0)
    learning = Learning(passes=1, extra_passes=1, frozen=False, updates=1, pass_tokens=240, saved=2_000_000_000)
    found = assumed_services(TINY, device(), colocated(2), load, dialect="textcraft", learning=learning)
    # 2 bytes x 180 numbers at 0.7 TB/s beside 1 ms of launches
    assert found.decode_fixed == pytest.approx(0.001 + 360 / 0.7e12)
    # forward a token: 2 x 160 numbers of matrices and the head, 2 x 4 numbers of queries x 60 tokens of an episode, together 800
    # 8 x 60 tokens x 800 x (3 + 1 for checkpointing + 1 for a pass forward), on 2 devices at a quarter of 100 T operations
    assert found.update == pytest.approx(8 * 60 * 800 * 5 / (2 * 1e14 * 0.25))
    # read behind 30 tokens: 2 x 160 + 4 x 4 x 30 operations at 0.4 of 100 T
    assert found.prefill_token == pytest.approx(800 / 0.4e14)
    assert found.weight_sync == pytest.approx(1.0 + 360 / 1e11)
    assert found.checkpoint == 2.0


def test_passes_that_are_many_wait_for_their_weights_by_hand() -> None:
    load = replace(LOAD, prompt_tokens=0.0, observation_tokens=0.0)
    learning = Learning(passes=1, extra_passes=1, frozen=False, updates=1, pass_tokens=24, saved=0)
    # 480 tokens in 10 passes on each of 2: half of 180 numbers twice in 2 bytes, once in 4, and once more in 2 for the pass forward, at 100 GB/s
    found = assumed_services(TINY, device(), colocated(2), load, dialect="textcraft", learning=learning)
    assert found.update == pytest.approx(10 * 90 * (4 + 4 + 2) / 1e11)
    # on two machines of one, at 10 GB/s, as the weights' way to the sampler
    apart = assumed_services(TINY, device(), colocated(2, per_machine=1), load, dialect="textcraft", learning=learning)
    assert apart.update == pytest.approx(10 * found.update)
    assert apart.weight_sync == pytest.approx(1.0 + 360 / 1e10)


def test_what_is_offloaded_crosses_to_the_host_by_hand() -> None:
    load = replace(LOAD, prompt_tokens=0.0, observation_tokens=0.0)
    learning = Learning(passes=1, extra_passes=2, frozen=False, updates=2, pass_tokens=24, saved=0, learns=180, networks=1, reference=True)
    kept, moments, state, streamed = (
        assumed_services(
            TINY, replace(device(), flops=1e18, link=1e18), replace(colocated(2), offload=offload), load, dialect="textcraft", learning=learning
        )
        for offload in OFFLOADS
    )
    # 10 passes on each of 2, in which half of the reference's 180 numbers comes in float32 at 20 GB/s
    assert kept.update == pytest.approx(10 * 360 / 20e9)
    # moments of 90 numbers there and back, 8 bytes each; then also weights, twice there and back
    assert moments.update - kept.update == pytest.approx(2 * 720 / 20e9)
    assert state.update - moments.update == pytest.approx(4 * 360 / 20e9)
    # in a pass the reference's share, the policy's three times (forward, back, before the update) and its gradients; two updates of 28 bytes a number
    assert streamed.update == pytest.approx(10 * 5 * 360 / 20e9 + 2 * 28 * 180 / 50e9)


def test_a_7b_model_over_two_machines_exchanges_57_gb_a_pass() -> None:
    # 15 / 16 of 7,615,616,512 numbers x 8 bytes = 57.1 GB, 1.14 s at 50 GB/s; one machine: 7 / 8 of them, 53.3 GB, 0.12 s at 450 GB/s
    shape, kind = known("Qwen2.5-7B"), find_gpu("h100-80g")
    load = replace(LOAD, episodes=1)
    learning = Learning(passes=1, extra_passes=0, frozen=False, updates=1, pass_tokens=10_000, saved=0)
    two, one = (assumed_services(shape, kind, colocated(count), load, dialect="textcraft", learning=learning).update for count in (16, 8))
    assert (two, one) == (pytest.approx(57.117e9 / 50e9, rel=1e-3), pytest.approx(53.309e9 / 450e9, rel=1e-3))


def test_tensor_parallel_devices_wait_for_each_other_by_hand() -> None:
    one, two = (assumed_services(TINY, device(), colocated(2, tensor_parallel=n), LOAD, dialect="textcraft", learning=NOTHING) for n in (1, 2))
    # two sums a layer of 4 numbers in 2 bytes, each passed on once, at 100 GB/s; and 20 microseconds each
    assert two.prefill_token == pytest.approx(one.prefill_token / 2 + 2 * 8 / 1e11)
    assert two.decode_fixed == pytest.approx(0.001 + 180 / 0.7e12 + 40e-6)


def test_one_process_multiplies_in_float32() -> None:
    half, whole = (one_process(checkpointing=False, half=half) for half in (True, False))
    learning = Learning(passes=1, extra_passes=0, frozen=True, updates=1, pass_tokens=10_000, saved=0)
    fast, slow = (assumed_services(TINY, device(), layout, LOAD, dialect="textcraft", learning=learning) for layout in (half, whole))
    assert slow.update == pytest.approx(10 * fast.update)
    # forward and back, without gradients of matrices: 8 episodes of 120 tokens, 2 x 160 + 2 x 4 x 120 operations, twice
    assert slow.update == pytest.approx(960 * 1280 * 2 / (1e13 * 0.25))
    assert fast.prefill_token == slow.prefill_token


def test_sizes_that_are_enough_by_hand() -> None:
    found = enough(LOAD, SERVICES, RESOURCES)
    # 10.63 turns a second x 0.2 s = 2.13 busy worlds, at most 0.7 of each: 3.04
    assert found.env_replicas == 4
    # the worlds give 0.7 x 4 / 0.2 = 14 turns a second; 2 replicas make 11.76, 3 replicas 8 / (20 x (0.01 + 8 / 3 x 0.005) + 0.0533) = 15.4
    assert found.policy_replicas == 3
    # 2 replicas x 4 sequences x (0.68 + 0.2) / 0.68
    assert found.concurrency == 11


def test_a_world_that_is_quicker_than_any_policy_waits() -> None:
    assert enough(LOAD, replace(SERVICES, env_step=1e-6), RESOURCES).policy_replicas is None


seconds = st.floats(min_value=0.0, max_value=1e4, allow_nan=False)
counts = st.integers(min_value=1, max_value=2000)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Load, Services, Resources]:
    horizon = draw(st.integers(min_value=1, max_value=100))
    load = Load(
        episodes=draw(counts),
        in_flight=draw(counts),
        horizon=horizon,
        mean_turns=draw(st.floats(min_value=1.0, max_value=horizon)),
        prompt_tokens=draw(seconds),
        observation_tokens=draw(seconds),
        response_tokens=draw(st.floats(min_value=1.0, max_value=1e4)),
        failures=draw(st.floats(min_value=0.0, max_value=1.0)),
    )
    services = Services(
        env_reset=draw(seconds),
        env_step=draw(seconds),
        prefill_token=draw(seconds),
        decode_fixed=draw(st.floats(min_value=1e-6, max_value=10)),
        decode_row=draw(seconds),
        update=draw(seconds),
        weight_sync=draw(seconds),
        checkpoint=draw(seconds),
    )
    resources = Resources(
        env_replicas=draw(counts), env_places=draw(st.floats(min_value=1.0, max_value=100)), policy_replicas=draw(counts), sequences=draw(counts)
    )
    return load, services, resources


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(situations(), st.integers(min_value=1, max_value=7))
def test_more_of_any_resource_never_makes_a_step_longer(situation: tuple[Load, Services, Resources], more: int) -> None:
    load, services, resources = situation
    now = step_time(load, services, resources)
    for name in (field.name for field in fields(Resources)):
        changed = replace(resources, **{name: getattr(resources, name) + more})
        assert step_time(load, services, changed).total <= now.total * (1 + 1e-9), name
    assert all(saved >= 0 for saved in doublings(load, services, resources, cached=10**6).values())


@settings(max_examples=40, deadline=None)
@given(situations())
def test_shares_are_shares_and_sizes_are_positive(situation: tuple[Load, Services, Resources]) -> None:
    found = step_time(*situation)
    assert 0 <= found.policy_utilisation <= 1 + 1e-9
    assert 0 <= found.env_utilisation <= 1 + 1e-9
    assert all(seconds >= -1e-9 * found.total for seconds in found.busy.values())
    sizing = enough(*situation)
    assert sizing.env_replicas >= 1 and sizing.concurrency >= 1
