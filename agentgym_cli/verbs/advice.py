"""The cheapest changes after which a run fits: keys of its recipe, more or larger GPUs. Every one has been weighed, and obeys the recipe's rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

from agentgym_cli.capacity.gpus import GpuKind, gpu_kinds
from agentgym_cli.capacity.training import host_of_machine
from agentgym_cli.capacity.verdict import Plan, Verdict, judge
from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.settings import own_settings
from agentgym_cli.recipe.rules import broken_rules
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.changes import Change, experiments, larger_clusters, spreads, with_keys
from agentgym_cli.verbs.devices import layout_of
from agentgym_cli.verbs.verl_place import keys_of
from agentgym_cli.verbs.workload import plan_of

_Chosen: TypeAlias = tuple[Change, ...]
_MOST_TOGETHER = 4
_MOST_WAYS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to make a run fit."""

    says: str
    overrides: tuple[str, ...]
    """Keys that are set; empty for a larger kind of GPU alone."""
    gpu: str | None
    """Kind of GPU to ask for; None keeps it."""
    host_bytes: int
    """What one machine's own memory has to hold then."""


def fitting_ways(run: Run, plan: Plan) -> tuple[Way, ...]:
    """Up to three ways to make a run fit, cheapest first; empty where it fits or nothing helps."""
    if judge(plan).fits:
        return ()
    changes = list(spreads(run, plan))
    sets = (_cheapest(run, plan, changes), _cheapest(run, plan, [*changes, *experiments(run, plan)]), _more_gpus(run, plan))
    found = {way.overrides: way for way in (_way(run, plan, chosen) for chosen in sets if chosen is not None)}
    larger = _larger_gpu(run, plan, () if found else (changes, [*changes, *experiments(run, plan)]))
    return tuple([*found.values(), *([larger] if larger is not None else [])][:_MOST_WAYS])


def _way(run: Run, plan: Plan, chosen: _Chosen, kind: GpuKind | None = None) -> Way:
    overrides = tuple(override for change in chosen for override in change.overrides)
    changed = _changed(run, chosen)
    weighed = judge(plan_of(changed, plan.shape, kind or plan.kind, layout_of(changed)))
    says = " ".join(map(_quoted, overrides))
    if kind is not None:
        says = f"{plan.layout.devices} x {kind.name} (--gpu {kind.name}{' ' if says else ''}{says})"
    return Way(
        says=says,
        overrides=overrides,
        gpu=None if kind is None else kind.name,
        host_bytes=host_of_machine(weighed.training, layout_of(changed)),
    )


def _changed(run: Run, chosen: _Chosen) -> Run:
    for change in chosen:
        run = with_keys(run, change.keys)
    return run


def _quoted(override: str) -> str:
    """As a shell takes it."""
    return f"'{override}'" if " " in override else override


def _cheapest(run: Run, plan: Plan, changes: Sequence[Change]) -> _Chosen | None:
    """The cheapest set of changes that makes it fit."""
    for chosen in sorted(_sets(changes), key=lambda chosen: (sum(change.price for change in chosen), len(chosen))):
        if _fits(run, plan, chosen):
            return chosen
    return None


def _sets(changes: Sequence[Change]) -> Iterator[_Chosen]:
    for size in range(1, min(_MOST_TOGETHER, len(changes)) + 1):
        for chosen in combinations(changes, size):
            if not any(one.excludes(other) for one, other in combinations(chosen, 2)):
                yield chosen


def _fits(run: Run, plan: Plan, chosen: _Chosen) -> bool:
    """Whether a run with these changes is possible and fits the plan's kind of device."""
    changed = _changed(run, chosen)
    verdict = _weighed(changed, plan, plan.kind)
    return verdict is not None and verdict.fits and next(broken_rules(changed), None) is None and _takes(changed)


def _takes(run: Run) -> bool:
    """Whether the trainer of the run has the keys of verl's that it is told."""
    try:
        own_settings(run.cluster or ClusterSpec(gpus_per_node=1), keys_of(run))
    except RecipeError:
        return False
    return True


def _weighed(run: Run, plan: Plan, kind: GpuKind) -> Verdict | None:
    """None for an impossible layout."""
    try:
        return judge(plan_of(run, plan.shape, kind, layout_of(run)))
    except RecipeError:
        return None


def _more_gpus(run: Run, plan: Plan) -> _Chosen | None:
    """The fewest GPUs of the same kind, with the policy spread over several of them where that is needed; with another experiment where they alone
    are never enough."""
    for others in ([], list(experiments(run, plan))):
        for larger in larger_clusters(run):
            wider = list(spreads(with_keys(run, larger.keys), plan))
            for beside in ([()] if not others else []) + [(change,) for change in wider + others]:
                if _fits(run, plan, (larger, *beside)):
                    return (larger, *beside)
    return None


def _larger_gpu(run: Run, plan: Plan, beside: Sequence[Sequence[Change]]) -> Way | None:
    """The smallest kind of GPU that holds it, in the same number: as it is, else with the cheapest set of the first of ``beside`` that helps."""
    if plan.layout.local or plan.kind.name == "cpu":
        return None
    kinds = [kind for kind in gpu_kinds().values() if kind.memory > plan.kind.memory]
    for kind in kinds:
        verdict = _weighed(run, plan, kind)
        if verdict is not None and verdict.fits:
            return _way(run, plan, (), kind)
    for tried in beside:
        for kind in kinds:
            chosen = _cheapest(run, replace(plan, kind=kind), tried)
            if chosen is not None:
                return _way(run, plan, chosen, kind)
    return None
