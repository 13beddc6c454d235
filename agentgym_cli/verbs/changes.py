"""What could be set otherwise in a run so that it needs less memory: keys of its recipe, each with a value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

from agentgym_cli.capacity.verdict import Plan
from agentgym_cli.learn.verl.memory import FUSED, SHARE
from agentgym_cli.recipe.schema.algorithms import OnlineSpec
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.learning import LoraSpec, TrainSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.devices import machine_of, machines_of

_MOST_GPUS = 1024
_SHARES = (0.3, 0.7, 0.8, 0.9)
"""Of a GPU that the sampler may be given in place of verl's own half."""
_VERL = "cluster.verl"
_RANK = 16
_SLOTS = 16
"""Fewest episodes at work at once that are proposed to a run with many more."""
Value = str | int | float | bool | tuple[str, ...] | LoraSpec
Section = TypeVar("Section")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Keys that are set together."""

    keys: Mapping[str, Value]
    """Values by key; of ``cluster.verl``, what is added."""
    price: int
    """What it costs beside memory, for ordering: 1 hardly anything, 10 another experiment."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """As they are said on a command line."""
        return tuple(text for key, value in self.keys.items() for text in _overrides(key, value))

    def excludes(self, other: Change) -> bool:
        """Whether both set the same key."""
        return bool(self._set & other._set)

    @property
    def _set(self) -> frozenset[str]:
        return frozenset(text.partition("=")[0] for text in self.overrides)


def _overrides(key: str, value: Value) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return tuple(f"verl.{text}" for text in value)
    return (f"{key}={_said(value)}",)


def _said(value: Value) -> str:
    if isinstance(value, LoraSpec):
        return f"{{rank: {value.rank}, alpha: {value.alpha:g}}}"
    return value if isinstance(value, str) else json.dumps(value)


def with_keys(run: Run, keys: Mapping[str, Value]) -> Run:
    """The run with these values. Every key's section is there."""
    changed = run
    for key, value in keys.items():
        changed = _with(changed, key.split("."), value)
    return changed


def _with(section: Section, path: list[str], value: Value) -> Section:
    assert is_dataclass(section) and not isinstance(section, type)
    now = getattr(section, path[0])
    inner = (now + value if isinstance(value, tuple) else value) if len(path) == 1 else _with(now, path[1:], value)
    return replace(section, **{path[0]: inner})


def spreads(run: Run, plan: Plan) -> Iterator[Change]:
    """What changes no result but by rounding, only time."""
    engine = run.engine
    if engine.kind != "local":
        yield from _parallel(run, plan)
        yield from _on_verl(plan)
        return
    if run.train is not None:
        if not engine.activation_checkpointing:
            yield Change(keys={"engine.activation_checkpointing": True}, price=2)
        if engine.pass_tokens > plan.context:
            yield Change(keys={"engine.pass_tokens": plan.context}, price=1)
    fewer = [engine.slots // part for part in (2, 4, 8, 16)] + [_SLOTS]
    for place, slots in enumerate(dict.fromkeys(fewer)):
        if 1 <= slots < engine.slots:
            yield Change(keys={"engine.slots": slots}, price=3 + place)


def _parallel(run: Run, plan: Plan) -> Iterator[Change]:
    cluster = run.cluster or ClusterSpec(gpus_per_node=1)
    for place, count in enumerate(range(cluster.tensor_parallel + 1, cluster.gpus_per_node + 1)):
        if not (cluster.gpus_per_node % count or plan.shape.heads % count):
            yield Change(keys={"cluster.tensor_parallel": count}, price=2 + place)


def _on_verl(plan: Plan) -> Iterator[Change]:
    """Where training state lies, how logits are made, and what the sampler takes."""
    layout = plan.layout
    for price, share in enumerate(_SHARES if layout.placement == "colocated" and plan.work is not None else ()):
        if share != layout.share:
            yield Change(keys={_VERL: (f"{SHARE}={share}",)}, price=1 + price)
    if plan.work is None:
        return
    if not layout.fused_head and layout.placement == "colocated":
        yield Change(keys={_VERL: (f"{FUSED}=true",)}, price=3)
    for offload, price in (("optimizer", 2), ("all", 3), ("streamed", 6)):
        if layout.offload != offload:
            yield Change(keys={"cluster.offload": offload}, price=price)


def experiments(run: Run, plan: Plan) -> Iterator[Change]:
    """What makes it another experiment."""
    train = run.train
    for place, part in enumerate((2, 4)):
        shorter = max(1, plan.context // part)
        passes = {"engine.pass_tokens": shorter} if run.engine.kind == "local" and run.engine.pass_tokens > shorter else {}
        yield Change(keys={"budgets.context_tokens": shorter, **passes}, price=12 + place)
    if train is None:
        return
    if run.engine.kind == "local" and run.engine.precision == "float32":
        yield Change(keys={"engine.precision": "bfloat16"}, price=7)
    # On verl the reference lies in the host's memory, so that no GPU has more room without it.
    if run.engine.kind == "local" and isinstance(train.algorithm, OnlineSpec) and train.algorithm.kl_coefficient > 0:
        yield Change(keys=_without_reference(train.algorithm), price=8)
    if train.lora is None:
        yield Change(keys=_adapters(train), price=10)


def _without_reference(algorithm: OnlineSpec) -> Mapping[str, Value]:
    """No weight of the KL term, and nothing said of how it would be estimated."""
    plain = {each.name: each.default for each in fields(algorithm)}
    places = {f"train.algorithm.{name}": str(plain[name]) for name in ("kl_place", "kl_estimate") if getattr(algorithm, name) != plain[name]}
    return {"train.algorithm.kl_coefficient": 0.0, **places}


def _adapters(train: TrainSpec) -> Mapping[str, Value]:
    wanted: Mapping[str, Value] = {"train.lora": LoraSpec(rank=_RANK, alpha=float(_RANK))}
    return wanted if train.parameters == "all" else {**wanted, "train.parameters": "all"}


def larger_clusters(run: Run) -> Iterator[Change]:
    """More GPUs: up to a machine's number, then full machines."""
    if run.engine.kind == "local" or run.cluster is None or not run.cluster.gpus_per_node:
        return
    machine = machine_of(run)
    for count in [*range(1, machine), *range(machine, _MOST_GPUS + 1, machine)]:
        if count > run.cluster.gpus:
            yield Change(keys=machines_of(count, machine), price=20)
