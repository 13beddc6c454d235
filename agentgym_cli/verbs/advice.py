"""The cheapest changes after which a run fits: keys of its recipe, more or larger GPUs. Every one has been weighed, and obeys the recipe's rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from agentgym_cli.capacity.gpus import GpuKind, gpu_kinds
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


def fitting_ways(run: Run, plan: Plan) -> tuple[Way, ...]:
    """Up to three ways to make a run fit, cheapest first; empty where it fits or nothing helps."""
    if judge(plan).fits:
        return ()
    changes = list(spreads(run, plan))
    sets = (_cheapest(run, plan, changes), _cheapest(run, plan, [*changes, *experiments(run, plan)]), _more_gpus(run, plan))
    found = [_way(chosen) for chosen in dict.fromkeys(chosen for chosen in sets if chosen is not None)]
    found += [way for way in (_larger_gpu(run, plan),) if way is not None]
    return tuple(found[:_MOST_WAYS])


def _way(chosen: tuple[str, ...]) -> Way:
    return Way(says=" ".join(map(_quoted, chosen)), overrides=chosen, gpu=None)


def _quoted(override: str) -> str:
    """As a shell takes it."""
    return f"'{override}'" if " " in override else override


def _cheapest(run: Run, plan: Plan, changes: Sequence[Change]) -> tuple[str, ...] | None:
    """The cheapest set of changes that makes it fit."""
    for chosen in sorted(_sets(changes), key=lambda chosen: (sum(change.price for change in chosen), len(chosen))):
        if _fits(run, plan, chosen):
            return tuple(override for change in chosen for override in change.overrides)
    return None


def _sets(changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    for size in range(1, min(_MOST_TOGETHER, len(changes)) + 1):
        for chosen in combinations(changes, size):
            if not any(one.excludes(other) for one, other in combinations(chosen, 2)):
                yield chosen


def _fits(run: Run, plan: Plan, chosen: Iterable[Change]) -> bool:
    """Whether a run with these changes is possible and fits the plan's kind of device."""
    changed = run
    for change in chosen:
        changed = with_keys(changed, change.keys)
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


def _more_gpus(run: Run, plan: Plan) -> tuple[str, ...] | None:
    """The fewest GPUs of the same kind, with the policy spread over several of them where that is needed; with another experiment where they alone
    are never enough."""
    for others in ([], list(experiments(run, plan))):
        for larger in larger_clusters(run):
            wider = list(spreads(with_keys(run, larger.keys), plan))
            for beside in ([()] if not others else []) + [(change,) for change in wider + others]:
                if _fits(run, plan, (larger, *beside)):
                    return tuple(override for change in (larger, *beside) for override in change.overrides)
    return None


def _larger_gpu(run: Run, plan: Plan) -> Way | None:
    """The smallest kind of GPU that holds it, in the same number."""
    if plan.layout.local or plan.kind.name == "cpu":
        return None
    for kind in gpu_kinds().values():
        verdict = _weighed(run, plan, kind) if kind.memory > plan.kind.memory else None
        if verdict is not None and verdict.fits:
            return Way(says=f"{plan.layout.devices} x {kind.name} (--gpu {kind.name})", overrides=(), gpu=kind.name)
    return None
