"""The same run elsewhere: half and twice the GPUs, trainer and sampler apart, other kinds of GPU. What a recipe's rules forbid is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from agentgym_cli.capacity.gpus import GpuKind, gpu_kinds
from agentgym_cli.capacity.layout import SHARE, Layout
from agentgym_cli.capacity.measured import Evidence, Measured
from agentgym_cli.capacity.money import Prices
from agentgym_cli.recipe.rules import broken_rules
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.changes import with_keys
from agentgym_cli.verbs.devices import layout_of, machine_of, machines_of
from agentgym_cli.verbs.estimate import Estimate, estimate
from agentgym_cli.verbs.workload import plan_of

_BESIDE = ("rtx4090-24g", "l40s-48g", "a100-80g", "h100-80g", "h200-141g")
"""Kinds that are shown beside the one that is asked for."""
_Elsewhere = tuple[str, Run, GpuKind, Layout, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The same run on other devices."""

    name: str
    estimate: Estimate
    setting: bool
    """False where no key of the run's engine sets it."""


def alternatives_of(run: Run, main: Estimate, evaluated: Mapping[str, int], prices: Prices, measured: Evidence | None) -> tuple[Alternative, ...]:
    """Nothing for an engine of one process. Times that were measured on the run's own devices are assumed on others."""
    if main.plan.layout.local:
        return ()
    elsewhere = replace(measured, use=measured.use.elsewhere) if isinstance(measured, Measured) else measured
    return tuple(
        Alternative(
            name=name,
            estimate=estimate(other, plan_of(other, main.plan.shape, kind, layout), measured=elsewhere, evaluated=evaluated, prices=prices),
            setting=setting,
        )
        for name, other, kind, layout, setting in _found(run, main)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwiceGpus:
    """The same run on twice as many GPUs of its kind."""

    keys: tuple[str, ...]
    """Keys of the recipe that are set otherwise."""
    seconds: float
    """What a step takes less; negative where it takes longer."""


def twice_the_gpus(run: Run, main: Estimate, measured: Evidence | None) -> TwiceGpus | None:
    """What twice the GPUs save; None where the recipe's rules forbid them, and for an engine of one process."""
    other = None if main.plan.layout.local else _with_gpus(run, 2 * main.plan.layout.devices)
    if other is None or other.cluster is None or run.cluster is None:
        return None
    plan = plan_of(other, main.plan.shape, main.plan.kind, layout_of(other))
    found = estimate(other, plan, measured=measured, evaluated={}, prices=Prices())
    more, now = other.cluster, run.cluster
    changed = {"cluster.nodes": more.nodes != now.nodes, "cluster.gpus_per_node": more.gpus_per_node != now.gpus_per_node}
    return TwiceGpus(keys=tuple(key for key, differs in changed.items() if differs), seconds=main.step.total - found.step.total)


def _found(run: Run, main: Estimate) -> Iterator[_Elsewhere]:
    layout, kind = main.plan.layout, main.plan.kind
    count, parallel = layout.devices, layout.tensor_parallel
    for number in (count // 2, count * 2):
        other = _with_gpus(run, number)
        if other is not None:
            yield f"{number} x {kind.name}", other, kind, layout_of(other), True
    half = count // 2
    if run.train is not None and layout.placement == "colocated" and half >= parallel and not (count - half) % parallel:
        apart = replace(layout, placement="separate", trainers=half, samplers=count - half, share=SHARE)
        yield f"{half} train, {count - half} sample", run, kind, apart, False
    for name in _BESIDE if kind.name in gpu_kinds() else ():
        if name != kind.name:
            yield f"{count} x {name}", run, gpu_kinds()[name], layout, True


def _with_gpus(run: Run, number: int) -> Run | None:
    """The run on so many GPUs; None where machines or its batches do not allow it."""
    if run.cluster is None or number < 1 or (number > machine_of(run) and number % machine_of(run)):
        return None
    other = with_keys(run, machines_of(number, machine_of(run)))
    return None if next(broken_rules(other), None) is not None else other
