"""Impossible layouts; and that more memory, more GPUs or a shorter context never make anything worse."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_cli.capacity.gpus import gpu_kinds, kind_named, smallest_gpu
from agentgym_cli.capacity.known_models import known_models
from agentgym_cli.capacity.layout import Layout, check_layout, colocated, separate
from agentgym_cli.capacity.verdict import judge
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.schema.computing import Offload
from tests.capacity.shapes import device, known, plan


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (colocated(0), "at least one GPU"),
        (colocated(8, tensor_parallel=0), "at least one GPU"),
        (separate(8, trainers=8), "at least one GPU"),
        (colocated(8, tensor_parallel=3), "divisor of the 8 GPUs that sample, got 3"),
        (colocated(16, tensor_parallel=16), "divisor of the model's 28 attention heads, got 16"),
        (replace(separate(8, trainers=4), devices=6), "at most 6 GPUs, got 4 that train and 4 that sample"),
    ],
)
def test_impossible_layouts_are_refused(layout: Layout, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        check_layout(layout, known("Qwen2.5-7B"))


def test_key_value_heads_and_the_mlp_have_to_be_shared_out_evenly() -> None:
    # vLLM asserts all three of its 28 heads, 4 key/value heads and 18,944 numbers; 7 divides the first alone
    seven = colocated(7, tensor_parallel=7)
    with pytest.raises(RecipeError, match="a divisor or a multiple of the model's 4 key/value heads, got 7"):
        check_layout(seven, known("Qwen2.5-7B"))
    with pytest.raises(RecipeError, match="a divisor of the 18,944 numbers of the model's MLP, got 7"):
        check_layout(seven, replace(known("Qwen2.5-7B"), key_value_heads=7))
    assert check_layout(colocated(8, tensor_parallel=8), known("Llama-3.2-1B")).replicas == 1


def test_kinds_are_found_by_the_memory_they_are_sold_with() -> None:
    assert [kind.name for kind in (smallest_gpu(24), smallest_gpu(80), smallest_gpu(150)) if kind] == ["l4-24g", "a100-80g", "b200-180g"]
    assert smallest_gpu(1000) is None


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(known_models())), st.integers(0, 3), st.integers(16, 32_768), st.booleans())
def test_more_of_anything_never_needs_more(name: str, power: int, context: int, reference: bool) -> None:
    devices = 2**power
    base = plan(known(name), layout=colocated(devices), context=context, reference=reference)
    found = judge(base)
    assert judge(replace(base, layout=colocated(2 * devices))).peak <= found.peak
    assert judge(replace(base, layout=replace(base.layout, fused_head=True))).peak <= found.peak
    offloads: tuple[Offload, ...] = ("optimizer", "all", "streamed")
    peaks = [found.peak, *(judge(replace(base, layout=replace(base.layout, offload=offload))).peak for offload in offloads)]
    assert peaks == sorted(peaks, reverse=True)
    assert judge(replace(base, kind=device(160))).sequences >= found.sequences
    longer = plan(known(name), layout=colocated(devices), context=context + 16, reference=reference)
    assert judge(longer).peak >= found.peak
    assert judge(longer).sequences <= found.sequences


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(known_models())), st.integers(0, 3))
def test_what_fits_a_kind_fits_every_larger_one(name: str, power: int) -> None:
    fits = [
        judge(replace(plan(known(name), layout=colocated(2**power)), kind=kind)).fits for kind in sorted(gpu_kinds().values(), key=lambda k: k.memory)
    ]
    assert fits == sorted(fits)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80g"),
        ("NVIDIA A100-SXM4-80GB", "a100-80g"),
        ("NVIDIA A100-PCIE-40GB", "a100-40g"),
        ("NVIDIA GeForce RTX 4090", "rtx4090-24g"),
        ("NVIDIA RTX A6000", "a6000-48g"),
        ("NVIDIA L40S", "l40s-48g"),
        ("NVIDIA L4", "l4-24g"),
        ("NVIDIA H200", "h200-141g"),
        ("NVIDIA L40", None),
        ("NVIDIA A100", None),
        ("Tesla T4", None),
        ("", None),
    ],
)
def test_a_kind_is_known_by_its_drivers_name(said: str, kind: str | None) -> None:
    found = kind_named(said)
    assert (None if found is None else found.name) == kind
