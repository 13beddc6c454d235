"""What each kind of GPU has: memory, bandwidth, speed. The numbers are in gpus.csv; prices are nobody's fact and are asked for."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.wording import listed, nearest, shown

GIB = 1024**3
_TABLE = Path(__file__).parent / "gpus.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKind:
    """One kind of device that computes."""

    name: str
    nominal_gb: int
    """As it is sold, and as ``cluster.gpu_memory_gib`` asks for it."""
    memory: int
    """Bytes that its driver reports, which are fewer."""
    bandwidth: float
    """Of its memory, bytes a second."""
    flops: float
    """Dense bfloat16 products, operations a second, as its maker states them."""
    float32: float
    """The same of products in float32, without the shorter formats that some count as such."""
    link: float
    """To another device of the same machine, bytes a second, one way."""
    network: float
    """To a device of another machine, its share of that machine's network, bytes a second, one way."""
    token_seconds: float = 0.001
    """What one decoding step costs beside arithmetic and memory: launches and scheduling."""


@cache
def gpu_kinds() -> Mapping[str, GpuKind]:
    """The table, smallest memory first."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        kinds = [_kind(row) for row in csv.DictReader(file)]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: (kind.nominal_gb, kind.bandwidth))}


def _kind(row: Mapping[str, str]) -> GpuKind:
    return GpuKind(
        name=row["kind"],
        nominal_gb=int(row["nominal_gb"]),
        memory=int(float(row["usable_gib"]) * GIB),
        bandwidth=float(row["bandwidth_gb_s"]) * 1e9,
        flops=float(row["bf16_tflops"]) * 1e12,
        float32=float(row["fp32_tflops"]) * 1e12,
        link=float(row["link_gb_s"]) * 1e9,
        network=float(row["network_gb_s"]) * 1e9,
    )


def find_gpu(name: str) -> GpuKind:
    """The kind of that name. Raises RecipeError with the nearest one."""
    kinds = gpu_kinds()
    if name not in kinds:
        raise RecipeError(
            f"--gpu: expected one of {listed(kinds)}, got {shown(name)}", f"--gpu {nearest(name, kinds)} (docs/capacity.md has the table)"
        )
    return kinds[name]


def kind_named(name: str) -> GpuKind | None:
    """The kind that a driver calls so, e.g. ``NVIDIA H100 80GB HBM3``; None for one that is not in the table, or of which the name leaves several."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    said = {*words, *("".join(pair) for pair in pairwise(words))}
    found = [kind for kind in gpu_kinds().values() if kind.name.partition("-")[0] in said]
    sized = [kind for kind in found if f"{kind.nominal_gb}gb" in said]
    return sized[0] if sized else found[0] if len(found) == 1 else None


def smallest_gpu(gigabytes: int) -> GpuKind | None:
    """The slowest kind of the smallest memory that holds so much, as it is sold; None where no kind does."""
    return next((kind for kind in gpu_kinds().values() if kind.nominal_gb >= gigabytes), None)


def gpu_of_memory(size: int) -> GpuKind:
    """A GPU of which only its memory is known: its times are those of the slowest kind whose memory is nearest."""
    near = min(gpu_kinds().values(), key=lambda kind: (abs(kind.memory - size), kind.bandwidth))
    return replace(near, name="this GPU", memory=size)


def this_machine(*, memory: int, threads: int) -> GpuKind:
    """A CPU that trains and samples by itself: ``threads`` cores of about 75 GFLOP/s in float32, and Python between the products."""
    return GpuKind(
        name="cpu",
        nominal_gb=memory // 10**9,
        memory=memory,
        bandwidth=10e9,
        flops=75e9 * threads,
        float32=75e9 * threads,
        link=10e9,
        network=1e9,
        token_seconds=0.015,
    )
