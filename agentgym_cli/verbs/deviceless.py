"""What an evaluation takes for which nothing is computed here: an endpoint acts, or a rule. Episodes, tokens, time and money; no memory to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentgym_cli.capacity.measured import Evidence, Measured
from agentgym_cli.capacity.money import PerSuccess, Prices, Stage, cost_of, per_success
from agentgym_cli.capacity.served import CALL_SECONDS, TOKEN_SECONDS, ServedTime, Server, served_time
from agentgym_cli.capacity.service import RESET_CALLS, Load, env_step_seconds
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.schema.policy import EndpointSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.evaluation_size import EvaluationPlan, plan_evaluation
from agentgym_cli.verbs.workload import episodes_load, replicas_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedAnswer:
    """What an evaluation without devices takes."""

    recipe: str
    profile: str
    profile_reason: str
    policy: str
    """Kind of policy that acts."""
    model: str | None
    """As its server calls it; None where no model acts."""
    why_no_memory: str
    tasks: Mapping[str, int]
    """Of each evaluation split."""
    load: Load
    """All of its episodes, as one step."""
    server: Server
    time: ServedTime
    stage: Stage
    per_success: tuple[PerSuccess, ...]
    no_cost: str | None
    """Why there is no cost; None where there is one."""
    evaluation: EvaluationPlan | None
    notes: tuple[str, ...]
    measured: Evidence | None
    timed: bool
    """Whether a run's own turns at this server are the policy's times."""


def is_served(run: Run) -> bool:
    """Whether a run needs no device of its own for a model: nothing is trained, and no weights of it act."""
    return run.train is None and run.evaluation.policy != "checkpoint"


def plan_served(
    run: Run,
    names: tuple[str, str, str],
    evaluated: Mapping[str, int],
    *,
    measured: Evidence | None,
    rates: tuple[float, ...],
    wanted: tuple[float | None, float | None],
    notes: tuple[str, ...],
) -> ServedAnswer:
    """Arithmetic; asks nobody.

    Args:
        names: the recipe, its profile and why it was taken.
        evaluated: tasks of each evaluation split.
        rates: shares of episodes that succeed, at which a success is priced.
        wanted: width of an interval and difference to detect, as ``plan_evaluation`` takes them.

    Raises:
        RecipeError: there is no task.
    """
    endpoint = run.policy.endpoint if run.evaluation.policy == "endpoint" else None
    limit = run.evaluation.limit
    episodes = run.evaluation.samples_per_task * sum(min(count, limit or count) for count in evaluated.values())
    if not episodes:
        raise RecipeError("tasks.evaluation: expected at least one task, got none", "agentgym freeze RECIPE says which there are")
    prices = Prices() if endpoint is None else _prices(endpoint)
    load = _load(run, episodes, endpoint, measured)
    server, timed = _server(run, load, endpoint, measured)
    time, stage = _played(run, load, server, measured, prices)

    def staged(count: int) -> Stage:
        return _played(run, replace(load, episodes=count), server, measured, prices)[1]

    run_measured = measured if isinstance(measured, Measured) else None
    return ServedAnswer(
        recipe=names[0],
        profile=names[1],
        profile_reason=names[2],
        policy=run.evaluation.policy,
        model=None if endpoint is None else endpoint.model,
        why_no_memory="the server has it, whose devices are not ours"
        if endpoint is not None
        else f"no model acts, policy {run.evaluation.policy} does",
        tasks=evaluated,
        load=load,
        server=server,
        time=time,
        stage=stage,
        per_success=per_success(stage, rates),
        no_cost=_no_cost(endpoint, stage),
        evaluation=plan_evaluation(staged, evaluated, width=wanted[0], gap=wanted[1], measured=run_measured),
        notes=(*notes, *_half_priced(prices), *_ends_before(run, stage)),
        measured=measured,
        timed=timed,
    )


def _prices(endpoint: EndpointSpec) -> Prices:
    return Prices(million_read=endpoint.price_per_million_input, million_sampled=endpoint.price_per_million_output)


def _load(run: Run, episodes: int, endpoint: EndpointSpec | None, measured: Evidence | None) -> Load:
    load = episodes_load(run, run.evaluation.horizon, episodes=episodes, in_flight=run.engine.slots, measured=measured)
    # A rule reads and samples no tokens.
    return load if endpoint is not None else replace(load, prompt_tokens=0.0, observation_tokens=0.0, response_tokens=0.0)


def _server(run: Run, load: Load, endpoint: EndpointSpec | None, measured: Evidence | None) -> tuple[Server, bool]:
    """Who is asked, and whether its time is measured."""
    slots = run.engine.slots
    if endpoint is None:
        return Server(turn_seconds=0.0, in_flight=slots), False
    known = measured.policy_seconds if isinstance(measured, Measured) and measured.use.policy is not None else None
    server = Server(
        turn_seconds=CALL_SECONDS + TOKEN_SECONDS * load.response_tokens if known is None else known,
        in_flight=min(slots, endpoint.max_in_flight or slots),
        requests_per_minute=endpoint.requests_per_minute,
        tokens_per_minute=endpoint.tokens_per_minute,
    )
    return server, known is not None


def _played(run: Run, load: Load, server: Server, measured: Evidence | None, prices: Prices) -> tuple[ServedTime, Stage]:
    step = env_step_seconds(run.env.dialect)
    places, reset = 1.0, RESET_CALLS * step
    if measured is not None:
        step, reset, places = measured.worlds(step, reset)
    found = served_time(load, server, env_step=step, env_reset=reset, env_places=replicas_of(run) * places)
    stage = Stage(
        name="1 evaluation",
        first_step=1,
        last_step=1,
        horizon=load.horizon,
        seconds=found.seconds,
        gpu_hours=0.0,
        episodes=load.episodes,
        tokens_read=load.read,
        tokens_sampled=load.sampled,
        cost=cost_of(0.0, load.read, load.sampled, prices),
    )
    return found, stage


def _no_cost(endpoint: EndpointSpec | None, stage: Stage) -> str | None:
    if stage.cost is not None:
        return None
    return "nobody is paid" if endpoint is None else "no price was given (policy.endpoint.price_per_million_input and price_per_million_output)"


def _half_priced(prices: Prices) -> tuple[str, ...]:
    """That only one kind of tokens has a price."""
    known = {"read": prices.million_read, "sampled": prices.million_sampled}
    free = [name for name, price in known.items() if price is None]
    return (f"tokens {free[0]} have no price and are not in the cost",) if len(free) == 1 else ()


def _ends_before(run: Run, stage: Stage) -> tuple[str, ...]:
    """That a limit of the whole run is less than what it takes."""
    tokens, most, limit = stage.tokens_read + stage.tokens_sampled, run.budgets.run_tokens, run.budgets.run_cost
    found = [] if most is None or tokens <= most else [f"budgets.run_tokens={most} ends the run before its last episode"]
    if limit is not None and stage.cost is not None and stage.cost > limit:
        found.append(f"budgets.run_cost={limit:g} ends the run before its last episode")
    return tuple(found)
