"""What a resolved run needs on given devices: memory, time of a step, wall time and cost by stage. Arithmetic; asks no machine and no store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GpuKind
from agentgym_cli.capacity.layout import Layout, check_layout
from agentgym_cli.capacity.measured import Evidence
from agentgym_cli.capacity.money import Prices, Stage, cost_of, in_all
from agentgym_cli.capacity.service import Load, Services, assumed_services
from agentgym_cli.capacity.throughput import Resources, Sizing, StepTime, doublings, enough, step_time
from agentgym_cli.capacity.training import Workload
from agentgym_cli.capacity.verdict import Plan, Verdict, judge
from agentgym_cli.learn.schedules import spans
from agentgym_cli.recipe.schema.algorithms import AgentEvolSpec, DpoSpec, OnlineSpec, PpoSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.run import Run

TURNS_SHARE = 0.6
"""Mean turns of an episode as a share of its horizon, where no run says."""
RESPONSE_SHARE = 0.25
"""Mean tokens of a response as a share of ``budgets.response_tokens``, where no run says."""
PROMPT_TOKENS, OBSERVATION_TOKENS = 600.0, 60.0
"""Where no run says; both at most a quarter of what the context has for them."""
_MOST_SPANS = 1000
_START_LOCAL, _START = 10.0, 180.0
"""Seconds until the first episode: imports and checks; with an engine on GPUs, its processes, weights and graphs too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Numbers of one run on one set of devices. Times are of the last stage of the horizon unless a stage says otherwise."""

    plan: Plan
    verdict: Verdict
    load: Load
    services: Services
    resources: Resources
    step: StepTime
    sizing: Sizing
    doublings: Mapping[str, float]
    """Seconds of a step that twice as much of one thing would save."""
    stages: tuple[Stage, ...]
    """Spans of one horizon, then evaluations."""
    total: Stage


def plan_of(run: Run, shape: ModelShape, kind: GpuKind, layout: Layout) -> Plan:
    """The memory side of a run. Raises RecipeError for an impossible layout or adapters on layers that there are not."""
    work = None if run.train is None else _work(run, run.train, shape, layout)
    context = run.budgets.context_tokens
    return Plan(kind=kind, shape=shape, work=work, layout=check_layout(layout, shape), context=context, sequences=in_flight_of(run, layout))


def in_flight_of(run: Run, layout: Layout) -> int:
    """Most episodes at work at once."""
    if layout.local:
        return run.engine.slots
    return episodes_of(run.train) if run.train is not None and isinstance(run.train.algorithm, OnlineSpec) else run.engine.slots


def episodes_of(train: TrainSpec) -> int:
    """Episodes or demonstrations that one step learns from; a pair is two."""
    pairs = 2 if isinstance(train.algorithm, DpoSpec) else 1
    return train.tasks_per_step * train.algorithm.group_size * pairs


def _work(run: Run, train: TrainSpec, shape: ModelShape, layout: Layout) -> Workload:
    context = run.budgets.context_tokens
    adapters = 0 if train.lora is None else shape.adapter_parameters(train.lora.rank, train.lora.targets)
    every = shape.vector_parameters if train.parameters == "gains" else shape.parameters
    return Workload(
        pass_tokens=max(context, run.engine.pass_tokens) if layout.local else context,
        trained=adapters or every,
        adapters=adapters,
        reference=isinstance(train.algorithm, DpoSpec) or train.algorithm.kl_coefficient > 0,
        critic=isinstance(train.algorithm, PpoSpec),
    )


def estimate(run: Run, plan: Plan, *, measured: Evidence | None, evaluated: Mapping[str, int], prices: Prices) -> Estimate:
    """Everything about a run on a plan's devices.

    Args:
        measured: what a run or a probe measured; None leaves every time to assumptions.
        evaluated: tasks of each evaluation split.
    """
    horizons = [(1, 1, run.evaluation.horizon)] if run.train is None else list(_spans(run, run.train))
    loads = {turns: _load(run, plan, turns, measured) for turns in {*(turns for *_, turns in horizons), run.evaluation.horizon}}
    last = loads[horizons[-1][2]]
    resources = _resources(run, plan, measured)
    services = {turns: _services(run, plan, load, measured) for turns, load in loads.items()}
    step = step_time(last, services[last.horizon], _possible(resources))
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
        step=step,
        sizing=enough(last, services[last.horizon], _possible(resources)),
        doublings=doublings(last, services[last.horizon], _possible(resources)),
        stages=stages,
        total=in_all(stages or [_stage((1, 1, last.horizon), last, services[last.horizon], resources, plan, prices)]),
    )


def _spans(run: Run, train: TrainSpec) -> list[tuple[int, int, int]]:
    """Of one horizon each; beyond the thousandth they are taken as one, at the last horizon."""
    found: list[tuple[int, int, int]] = []
    for first, last, turns in spans(run.horizon, after=0, steps=train.steps):
        if len(found) == _MOST_SPANS:
            return [*found, (first, train.steps, turns)]
        found.append((first, last, turns))
    return found


def _load(run: Run, plan: Plan, horizon: int, measured: Evidence | None) -> Load:
    train, context = run.train, plan.context
    played = train is None or isinstance(train.algorithm, OnlineSpec)
    episodes = in_flight_of(run, plan.layout) if train is None else episodes_of(train)
    response = RESPONSE_SHARE * run.budgets.response_tokens
    load = Load(
        episodes=episodes,
        in_flight=plan.sequences,
        horizon=horizon,
        mean_turns=max(1.0, TURNS_SHARE * horizon),
        prompt_tokens=min(PROMPT_TOKENS, context / 4),
        observation_tokens=min(OBSERVATION_TOKENS, context / 4 / horizon),
        response_tokens=max(1.0, min(response, context / 2 / horizon)),
        checkpoint_every=1 if train is None else train.checkpoint_every,
        played=played,
    )
    return load if measured is None else measured.applied_to(load)


def _services(run: Run, plan: Plan, load: Load, measured: Evidence | None) -> Services:
    train = run.train
    passes, extra = 0.0, 0
    if train is not None:
        passes = train.passes_per_step * (2.0 if isinstance(train.algorithm, PpoSpec) else 1.0)
        extra = int(bool(plan.work and plan.work.reference)) + int(not plan.layout.local)
    services = assumed_services(
        plan.shape,
        plan.kind,
        plan.layout,
        load,
        dialect=run.env.dialect,
        passes=passes,
        extra_passes=extra,
        adapters=bool(plan.work and plan.work.adapters),
    )
    if train is None:
        services = replace(services, update=0.0, weight_sync=0.0, checkpoint=0.0)
    return services if measured is None else measured.replaced_in(services, load)


def _resources(run: Run, plan: Plan, measured: Evidence | None) -> Resources:
    places = 1.0 if measured is None else measured.env_places
    replicas = plan.layout.replicas
    return Resources(env_replicas=replicas_of(run), env_places=places, policy_replicas=replicas, sequences=judge(plan).sequences // replicas)


def replicas_of(run: Run) -> int:
    """Servers of the environment."""
    return len(run.env.urls) if run.env.urls else run.env.replicas


def _possible(resources: Resources) -> Resources:
    """Where not one sequence fits there is no time to state; one keeps the arithmetic defined, and the verdict says that it does not fit."""
    return replace(resources, sequences=max(1, resources.sequences))


def _stage(span: tuple[int, int, int], load: Load, services: Services, resources: Resources, plan: Plan, prices: Prices) -> Stage:
    first, last, turns = span
    steps = last - first + 1
    seconds = steps * step_time(load, services, _possible(resources)).total
    return _paid(f"horizon {turns}", span, seconds, load, steps, plan, prices)


def _paid(name: str, span: tuple[int, int, int], seconds: float, load: Load, steps: float, plan: Plan, prices: Prices) -> Stage:
    gpus = 0 if plan.kind.name == "cpu" else plan.layout.devices
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
    load = _load(run, plan, run.evaluation.horizon, measured)
    return _played("evaluation", 1, episodes, (1, 1), load, _services(run, plan, load, measured), _resources(run, plan, measured), plan, prices)


def _played(
    name: str, times: int, episodes: int, steps: tuple[int, int], load: Load, services: Services, resources: Resources, plan: Plan, prices: Prices
) -> Stage:
    work = replace(load, episodes=episodes, in_flight=plan.sequences, played=True)
    seconds = times * step_time(work, services, _possible(resources)).play
    return _paid(name, (*steps, load.horizon), seconds, work, times, plan, prices)
