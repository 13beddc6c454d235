"""What a resolved run asks of its devices: the memory side as a plan, the work of a step, the times of its phases. Arithmetic; asks no store."""

from __future__ import annotations

from dataclasses import replace

from agentgym_cli.capacity.architecture import ModelShape
from agentgym_cli.capacity.gpus import GpuKind
from agentgym_cli.capacity.layout import Layout, check_layout
from agentgym_cli.capacity.measured import Evidence
from agentgym_cli.capacity.service import NOTHING, Learning, Load, Services, assumed_services
from agentgym_cli.capacity.throughput import Resources
from agentgym_cli.capacity.training import Workload, critic_numbers
from agentgym_cli.capacity.verdict import Plan, judge
from agentgym_cli.learn.verl.memory import memory_keys
from agentgym_cli.recipe.schema.algorithms import DpoSpec, OnlineSpec, PpoSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.devices import keys_of

TURNS_SHARE = 0.6
"""Mean turns of an episode as a share of its horizon, where no run says."""
RESPONSE_SHARE = 0.25
"""Mean tokens of a response as a share of ``budgets.response_tokens``, where no run says."""
PROMPT_TOKENS, OBSERVATION_TOKENS = 600.0, 60.0
"""Where no run says; both at most a quarter of what the context has for them."""


def plan_of(run: Run, shape: ModelShape, kind: GpuKind, layout: Layout) -> Plan:
    """The memory side of a run. Raises RecipeError for an impossible layout or adapters on layers that there are not."""
    work = None if run.train is None else _work(run, run.train, shape, layout)
    context = run.budgets.context_tokens
    return Plan(kind=kind, shape=shape, work=work, layout=check_layout(layout, shape), context=context, sequences=in_flight_of(run, layout))


def in_flight_of(run: Run, layout: Layout) -> int:
    """Most episodes at work at once: as many as there are slots, which on verl each worker has, one for each GPU."""
    if layout.local or run.train is None or not isinstance(run.train.algorithm, OnlineSpec):
        return run.engine.slots
    return min(episodes_of(run.train), run.engine.slots * layout.devices)


def episodes_of(train: TrainSpec) -> int:
    """Episodes or demonstrations that one step learns from; a pair is two."""
    pairs = 2 if isinstance(train.algorithm, DpoSpec) else 1
    return train.tasks_per_step * train.algorithm.group_size * pairs


def _work(run: Run, train: TrainSpec, shape: ModelShape, layout: Layout) -> Workload:
    adapters = 0 if train.lora is None else shape.adapter_parameters(train.lora.rank, train.lora.targets)
    every = shape.vector_parameters if train.parameters == "gains" else shape.parameters
    return Workload(
        pass_tokens=_pass_tokens(run),
        trained=adapters or every,
        adapters=adapters,
        merged=0 if train.lora is None else shape.target_parameters(train.lora.targets),
        # What a reference says of stored pairs is asked once, before the model changes.
        reference=train.algorithm.kl_coefficient > 0,
        critic=isinstance(train.algorithm, PpoSpec),
    )


def _pass_tokens(run: Run) -> int:
    """Most tokens of one pass on one device: one context, or what a launch on verl is told in verl's words."""
    context = run.budgets.context_tokens
    if run.engine.kind == "local":
        return max(context, run.engine.pass_tokens)
    said = None if run.cluster is None else memory_keys(run.cluster, keys_of(run)).pass_tokens
    return context if said is None else said


def load_of(run: Run, plan: Plan, horizon: int, measured: Evidence | None) -> Load:
    """The work of one step at a horizon."""
    train = run.train
    episodes = in_flight_of(run, plan.layout) if train is None else episodes_of(train)
    load = episodes_load(run, horizon, episodes=episodes, in_flight=plan.sequences, measured=measured)
    played = train is None or isinstance(train.algorithm, OnlineSpec)
    return replace(load, checkpoint_every=1 if train is None else train.checkpoint_every, played=played)


def episodes_load(run: Run, horizon: int, *, episodes: int, in_flight: int, measured: Evidence | None) -> Load:
    """So many episodes, with turns and tokens as they are assumed, or as a run measured them."""
    context, response = run.budgets.context_tokens, RESPONSE_SHARE * run.budgets.response_tokens
    load = Load(
        episodes=episodes,
        in_flight=in_flight,
        horizon=horizon,
        mean_turns=max(1.0, TURNS_SHARE * horizon),
        prompt_tokens=min(PROMPT_TOKENS, context / 4),
        observation_tokens=min(OBSERVATION_TOKENS, context / 4 / horizon),
        response_tokens=max(1.0, min(response, context / 2 / horizon)),
        most_attempts=run.retry.attempts,
    )
    return load if measured is None else measured.applied_to(load)


def services_of(run: Run, plan: Plan, load: Load, measured: Evidence | None) -> Services:
    """Seconds of each phase, measured where that is at hand; 0 for what a run that trains nothing does not do."""
    learning = NOTHING if run.train is None or plan.work is None else _learning(run.train, plan, plan.work)
    services = assumed_services(plan.shape, plan.kind, plan.layout, load, dialect=run.env.dialect, learning=learning)
    return services if measured is None else measured.replaced_in(services, load)


def _learning(train: TrainSpec, plan: Plan, work: Workload) -> Learning:
    return Learning(
        passes=train.passes_per_step * (2.0 if work.critic else 1.0),
        # Engines on GPUs compute the log-probabilities before the update again; a critic says its values before it learns.
        extra_passes=int(work.reference) + int(work.critic) + int(plan.layout.placement in ("colocated", "separate")),
        frozen=work.trained < plan.shape.parameters,
        updates=train.updates_per_step * train.passes_per_step,
        learns=work.trained + (critic_numbers(plan.shape, work, plan.layout)[1] if work.critic else 0),
        networks=2 if work.critic else 1,
        reference=work.reference and not plan.layout.local and not work.adapters,
        pass_tokens=work.pass_tokens,
        saved=_saved(plan, work),
    )


def _saved(plan: Plan, work: Workload) -> int:
    """Bytes of a checkpoint: all weights, of adapters in one process they alone, and two moments of what learns; of a critic likewise."""
    shape, local = plan.shape, plan.layout.local
    policy = work.adapters if local and work.adapters else shape.parameters + work.adapters
    whole, learning = critic_numbers(shape, work, plan.layout) if work.critic else (0, 0)
    critic = learning if local and work.adapters else whole
    return 4 * (policy + critic) + 8 * (work.trained + learning)


def resources_of(run: Run, plan: Plan, measured: Evidence | None) -> Resources:
    """How many of everything a run has."""
    places = 1.0 if measured is None else measured.env_places
    replicas = plan.layout.replicas
    # Where not one sequence fits there is no time to state; one keeps the arithmetic defined, and the verdict says that it does not fit.
    # A copy of the policy takes no more than there are slots, whatever its cache holds.
    sequences = max(1, min(run.engine.slots, judge(plan).sequences // replicas))
    return Resources(env_replicas=replicas_of(run), env_places=places, policy_replicas=replicas, sequences=sequences)


def replicas_of(run: Run) -> int:
    """Servers of the environment."""
    return len(run.env.urls) if run.env.urls else run.env.replicas
