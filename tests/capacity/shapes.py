"""Small shapes whose numbers can be worked out by hand, and plans over them."""

from __future__ import annotations

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GIB, GpuKind
from agentgym_cli.capacity.known_models import find_known
from agentgym_cli.capacity.layout import Layout, colocated
from agentgym_cli.capacity.training import Workload
from agentgym_cli.capacity.verdict import Plan

TINY = ModelShape(hidden=4, intermediate=6, heads=2, key_value_heads=1, head_dim=2, layers=1, vocabulary=10, tied=True)
"""180 numbers: embedding 40; queries 16 + 4, keys and values 2 x (8 + 2), output 16; MLP 72; norms 8; last norm 4."""


def known(name: str) -> ModelShape:
    """A shape of the shipped table."""
    found = find_known(name)
    assert found is not None
    return found.shape


def work(shape: ModelShape, *, tokens: int, adapters: int = 0, reference: bool = False, critic: bool = False) -> Workload:
    """All numbers learn, or adapters."""
    return Workload(pass_tokens=tokens, trained=adapters or shape.parameters, adapters=adapters, reference=reference, critic=critic)


def device(gib: float = 80.0) -> GpuKind:
    """A GPU of so much memory that reads 1 TB/s and makes 100 T operations a second, 10 T in float32."""
    return GpuKind(name="made-up", nominal_gb=int(gib), memory=int(gib * GIB), bandwidth=1e12, flops=1e14, float32=1e13, link=1e11, network=1e10)


def plan(
    shape: ModelShape, *, gib: float = 80.0, layout: Layout | None = None, context: int = 1024, sequences: int = 8, reference: bool = False
) -> Plan:
    """Training at the whole context."""
    spread = layout or colocated(1)
    return Plan(
        kind=device(gib), shape=shape, work=work(shape, tokens=context, reference=reference), layout=spread, context=context, sequences=sequences
    )
