"""What a resolved run needs on given devices: memory, time of a step, wall time and cost by stage. Arithmetic; asks no machine and no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym_cli.capacity.measured import Evidence
from agentgym_cli.capacity.money import Prices, Stage, cost_of, in_all
from agentgym_cli.capacity.service import Load, Services
from agentgym_cli.capacity.throughput import Resources, Sizing, StepTime, doublings, enough, step_time
from agentgym_cli.capacity.verdict import Plan, Verdict, judge
from agentgym_cli.learn.schedules import spans
from agentgym_cli.recipe.schema.algorithms import AgentEvolSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.workload import load_of, resources_of, services_of

_MOST_SPANS = 1000
_START_LOCAL, _START = 10.0, 180.0
"""Seconds until the first episode: imports and checks; with an engine on GPUs, its processes, weights and graphs too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanStep:
    """Over all steps of a run, whatever their horizon: what the means of its metrics are to be compared with."""

    seconds: float
    play: float
    """Of these, seconds in which episodes are played."""
    turns: float
    """Mean turns of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Numbers of one run on one set of devices. Times are of the last stage of the horizon unless a stage says otherwise."""

    plan: Plan
    verdict: Verdict
    load: Load
    services: Services
    resources: Resources
    step: StepTime
    mean: MeanStep
    sizing: Sizing
    doublings: Mapping[str, float]
    """Seconds of a step that twice as much of one thing would save."""
    stages: tuple[Stage, ...]
    """Spans of one horizon, then evaluations."""
    total: Stage


def estimate(run: Run, plan: Plan, *, measured: Evidence | None, evaluated: Mapping[str, int], prices: Prices) -> Estimate:
    """Everything about a run on a plan's devices.

    Args:
        measured: what a run or a probe measured; None leaves every time to assumptions.
        evaluated: tasks of each evaluation split.
    """
    horizons = [(1, 1, run.evaluation.horizon)] if run.train is None else list(_spans(run, run.train))
    loads = {turns: load_of(run, plan, turns, measured) for turns in {*(turns for *_, turns in horizons), run.evaluation.horizon}}
    last = loads[horizons[-1][2]]
    resources = resources_of(run, plan, measured)
    services = {turns: services_of(run, plan, load, measured) for turns, load in loads.items()}
    steps = {turns: step_time(load, services[turns], resources) for turns, load in loads.items()}
    stages = () if run.train is None else tuple(_stage(span, loads[span[2]], services[span[2]], resources, plan, prices) for span in horizons)
    evaluation = loads[run.evaluation.horizon]
    stages = (*_before(run, plan, last, services[last.horizon], resources, prices), *stages)
    stages += _evaluations(run, evaluated, evaluation, services[evaluation.horizon], resources, plan, prices)
    return Estimate(
        plan=plan,
        verdict=judge(plan),
        load=last,
        services=services[last.horizon],
        resources=resources,
        step=steps[last.horizon],
        mean=_mean(horizons, loads, steps),
        sizing=enough(last, services[last.horizon], resources),
        doublings=doublings(last, services[last.horizon], resources, cached=_cached(plan, resources)),
        stages=stages,
        total=in_all(stages or [_stage((1, 1, last.horizon), last, services[last.horizon], resources, plan, prices)]),
    )


def _cached(plan: Plan, resources: Resources) -> int:
    """Episodes for which one copy of the policy has cache with twice the slots: as many as now where a cache made whole would not fit."""
    more = judge(replace(plan, sequences=2 * plan.sequences))
    return more.sequences // plan.layout.replicas if more.fits else resources.sequences


def _mean(horizons: Sequence[tuple[int, int, int]], loads: Mapping[int, Load], steps: Mapping[int, StepTime]) -> MeanStep:
    counts = [(last - first + 1, turns) for first, last, turns in horizons]
    whole = sum(count for count, _ in counts)
    return MeanStep(
        seconds=sum(count * steps[turns].total for count, turns in counts) / whole,
        play=sum(count * steps[turns].play for count, turns in counts) / whole,
        turns=sum(count * loads[turns].mean_turns for count, turns in counts) / whole,
    )


def _spans(run: Run, train: TrainSpec) -> list[tuple[int, int, int]]:
    """Of one horizon each; beyond the thousandth they are taken as one, at the last horizon."""
    found: list[tuple[int, int, int]] = []
    for first, last, turns in spans(run.horizon, after=0, steps=train.steps):
        if len(found) == _MOST_SPANS:
            return [*found, (first, train.steps, turns)]
        found.append((first, last, turns))
    return found


def _stage(span: tuple[int, int, int], load: Load, services: Services, resources: Resources, plan: Plan, prices: Prices) -> Stage:
    first, last, turns = span
    steps = last - first + 1
    seconds = steps * step_time(load, services, resources).total
    return _paid(f"horizon {turns}", span, seconds, load, steps, plan, prices)


def _paid(name: str, span: tuple[int, int, int], seconds: float, load: Load, steps: float, plan: Plan, prices: Prices) -> Stage:
    gpus = 0 if plan.kind.name == "cpu" else plan.layout.devices
    prices = prices if gpus else replace(prices, gpu_hour=None)
    hours, read, sampled = gpus * seconds / 3600, steps * load.read, steps * load.sampled
    return Stage(
        name=name,
        first_step=span[0],
        last_step=span[1],
        horizon=span[2],
        seconds=seconds,
        gpu_hours=hours,
        episodes=round(steps * load.episodes) if load.played else 0,
        tokens_read=read,
        tokens_sampled=sampled,
        cost=cost_of(hours, read, sampled, prices),
    )


def _evaluations(
    run: Run, evaluated: Mapping[str, int], load: Load, services: Services, resources: Resources, plan: Plan, prices: Prices
) -> tuple[Stage, ...]:
    """All evaluations of the run as one row: before, after and in the middle of training; and what AgentEvol explores."""
    samples, limit = run.evaluation.samples_per_task, run.evaluation.limit
    episodes = samples * sum(min(count, limit or count) for count in evaluated.values())
    found = []
    steps = 0 if run.train is None else run.train.steps
    times = 1 if run.train is None else 2 + ((steps - 1) // run.evaluation.every if run.evaluation.every else 0)
    if episodes:
        found.append(_played(f"{times} evaluation{'s' if times > 1 else ''}", times, episodes, (1, 1), load, services, resources, plan, prices))
    if run.train is not None and isinstance(run.train.algorithm, AgentEvolSpec):
        rule = run.train.algorithm
        rounds = -(-steps // rule.iteration_steps)
        explored = rule.explored_tasks * rule.samples_per_task
        found.append(_played(f"{rounds} explorations", rounds, explored, (1, steps), load, services, resources, plan, prices))
    return tuple(found)


def _before(run: Run, plan: Plan, load: Load, services: Services, resources: Resources, prices: Prices) -> tuple[Stage, ...]:
    """Starting everything, and the warm start: demonstrations that an oracle plays, then updates on them."""
    start = replace(load, played=False)
    found = [_paid("start", (1, 1, load.horizon), _START_LOCAL if plan.layout.local else _START, start, 0, plan, prices)]
    if run.warm_start is not None:
        spec = run.warm_start
        share = spec.demonstrations_per_step * (spec.max_turns / 2) / max(1.0, load.episodes * load.mean_turns)
        asked = 2 * spec.demonstrations * spec.max_turns / 2 * services.env_step / (resources.env_replicas * resources.env_places)
        seconds = asked + spec.steps * share * services.update
        found.append(_paid("warm start", (1, spec.steps, spec.max_turns), seconds, start, spec.steps, plan, prices))
    return tuple(found)


def evaluation_stage(run: Run, plan: Plan, episodes: int, prices: Prices, measured: Evidence | None) -> Stage:
    """What so many episodes of evaluation take on a plan's devices."""
    load = load_of(run, plan, run.evaluation.horizon, measured)
    return _played("evaluation", 1, episodes, (1, 1), load, services_of(run, plan, load, measured), resources_of(run, plan, measured), plan, prices)


def _played(
    name: str, times: int, episodes: int, steps: tuple[int, int], load: Load, services: Services, resources: Resources, plan: Plan, prices: Prices
) -> Stage:
    work = replace(load, episodes=episodes, in_flight=plan.sequences, played=True)
    seconds = times * step_time(work, services, resources).play
    return _paid(name, (*steps, load.horizon), seconds, work, times, plan, prices)
