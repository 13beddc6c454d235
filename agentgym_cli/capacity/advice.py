"""The cheapest changes after which a plan fits: of what it runs on, of how it is spread, or of the experiment itself. Proposes, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GIB, gpu_kinds
from agentgym_cli.capacity.training import Workload
from agentgym_cli.capacity.verdict import Plan, judge

_MOST_TOGETHER = 4
_MOST_GPUS = 1024
_ALL_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that could be otherwise."""

    says: str
    price: int
    """What it costs beside memory, for ordering: 1 hardly anything, 10 another experiment."""
    apply: Callable[[Plan], Plan]


def fitting_changes(plan: Plan) -> tuple[str, ...]:
    """Up to three ways to make a plan fit, cheapest first, each a sentence; empty where it fits already or nothing helps."""
    if judge(plan).fits:
        return ()
    ways = (_cheapest(plan, _spreads(plan)), _cheapest(plan, [*_spreads(plan), *_experiments(plan)]), _more_gpus(plan), _larger_gpu(plan))
    return tuple(dict.fromkeys(way for way in ways if way is not None))[:3]


def _cheapest(plan: Plan, changes: Sequence[Change]) -> str | None:
    """The cheapest set of changes that makes it fit."""
    sets = sorted(_sets(changes), key=lambda chosen: (sum(change.price for change in chosen), len(chosen)))
    for chosen in sets:
        changed = plan
        for change in chosen:
            changed = change.apply(changed)
        verdict = judge(changed)
        if verdict.fits:
            host = 0 if verdict.training is None else verdict.training.host * changed.layout.trainers
            return ", ".join(change.says for change in chosen) + (f" ({host / GIB:,.0f} GiB there)" if host else "")
    return None


def _sets(changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    for size in range(1, min(_MOST_TOGETHER, len(changes)) + 1):
        yield from combinations(changes, size)


def _spreads(plan: Plan) -> list[Change]:
    """What changes no result but time."""
    layout, found = plan.layout, []
    if plan.work is not None:
        if not layout.checkpointing:
            key = "engine.activation_checkpointing=true" if layout.local else "activation checkpointing"
            found.append(_layout_change(key, 2, checkpointing=True))
        if not layout.local:
            found += [_layout_change("logits in pieces (a fused head)", 1, fused_head=True)] if not layout.fused_head else []
            found += [_layout_change("training state offloaded to the host", 5, offload=True)] if not layout.offload else []
        elif plan.work.pass_tokens > plan.context:
            found.append(Change(says=f"engine.pass_tokens={plan.context}", price=1, apply=_fewer_tokens))
    if not layout.local:
        wider = [n for n in (2, 4, 8) if n > layout.tensor_parallel and not layout.samplers % n and not plan.shape.heads % n]
        found += [_layout_change(f"cluster.tensor_parallel={n}", 2 + place, tensor_parallel=n) for place, n in enumerate(wider)]
    elif plan.sequences > 1:
        found.append(Change(says=f"engine.slots={plan.sequences // 2}", price=3, apply=lambda old: replace(old, sequences=old.sequences // 2)))
    return found


def _experiments(plan: Plan) -> list[Change]:
    """What makes it another experiment."""
    if plan.work is None:
        return []
    found = [Change(says=f"budgets.context_tokens={plan.context // 2}", price=12, apply=_half_context)] if plan.context > 1 else []
    if plan.work.reference:
        found.append(Change(says="no reference (kl_coefficient=0)", price=8, apply=lambda old: _working(old, reference=False)))
    if not plan.work.adapters:
        found.append(Change(says="adapters of rank 16 in place of all weights (train.lora)", price=10, apply=_with_adapters))
    return found


def _layout_change(says: str, price: int, **what: bool | int) -> Change:
    return Change(says=says, price=price, apply=lambda old: replace(old, layout=replace(old.layout, **what)))  # type: ignore[arg-type]


def _fewer_tokens(plan: Plan) -> Plan:
    return _working(plan, pass_tokens=plan.context)


def _half_context(plan: Plan) -> Plan:
    half = plan.context // 2
    return replace(_working(plan, pass_tokens=half), context=half)


def _working(plan: Plan, *, reference: bool | None = None, pass_tokens: int | None = None) -> Plan:
    assert plan.work is not None
    work = plan.work
    kept = work.reference if reference is None else reference
    return replace(plan, work=replace(work, reference=kept, pass_tokens=work.pass_tokens if pass_tokens is None else pass_tokens))


def _with_adapters(plan: Plan) -> Plan:
    assert plan.work is not None
    return replace(plan, work=adapted(plan.work, plan.shape, 16, _ALL_TARGETS))


def adapted(work: Workload, shape: ModelShape, rank: int, targets: tuple[str, ...]) -> Workload:
    """The same work with low-rank adapters in place of the model's own numbers."""
    count = shape.adapter_parameters(rank, targets)
    return replace(work, trained=count, adapters=count)


def _more_gpus(plan: Plan) -> str | None:
    """The smallest power of two of the same GPUs."""
    if plan.layout.placement != "colocated":
        return None
    count = 1
    while count <= _MOST_GPUS:
        count *= 2
        if count > plan.layout.devices and not count % plan.layout.tensor_parallel:
            layout = replace(plan.layout, devices=count, trainers=count, samplers=count)
            if judge(replace(plan, layout=layout)).fits:
                return f"{count} x {plan.kind.name} (--gpus {count})"
    return None


def _larger_gpu(plan: Plan) -> str | None:
    """The smallest kind of GPU that holds it, in the same number."""
    if plan.layout.local:
        return None
    for kind in gpu_kinds().values():
        if kind.memory > plan.kind.memory and judge(replace(plan, kind=kind)).fits:
            return f"{plan.layout.devices} x {kind.name} (--gpu {kind.name})"
    return None
