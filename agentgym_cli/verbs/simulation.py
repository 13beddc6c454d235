"""Steps of a run played event by event, with turn counts and times that another run measured."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.capacity.measured import Measured
from agentgym_cli.capacity.simulate import SimulatedSteps, Workshop, simulate_steps
from agentgym_cli.capacity.throughput import step_time
from agentgym_cli.recipe.schema.algorithms import OnlineSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.verbs.estimate import Estimate
from agentgym_cli.verbs.workload import load_of, services_of

_MOST_TURNS = 30_000
"""Turns that are played in all; a few seconds of one core."""
_STEPS = (5, 40)
"""Fewest and most steps of one horizon."""
_MOST_HORIZONS = 4


def simulated(run: Run, found: Estimate, measured: Measured) -> tuple[tuple[int, SimulatedSteps], ...]:
    """Steps of each horizon of the schedule, at most four of them, the last included."""
    horizons = list(dict.fromkeys(stage.horizon for stage in found.stages if stage.name.startswith("horizon"))) or [found.load.horizon]
    chosen = horizons if len(horizons) <= _MOST_HORIZONS else [*horizons[: _MOST_HORIZONS - 1], horizons[-1]]
    shops = [(horizon, _shop(run, found, measured, horizon)) for horizon in chosen]
    return tuple((horizon, simulate_steps(shop, steps=_steps(shop, len(shops)), seed=run.seed)) for horizon, shop in shops)


def _steps(shop: Workshop, shops: int) -> int:
    turns = shop.groups * shop.group_size * sum(min(count, shop.horizon) for count in shop.turns) / len(shop.turns)
    few, many = _STEPS
    return max(few, min(many, int(_MOST_TURNS / shops / max(1.0, turns))))


def _shop(run: Run, found: Estimate, measured: Measured, horizon: int) -> Workshop:
    resources, train = found.resources, run.train
    load = load_of(run, found.plan, horizon, measured)
    services = services_of(run, found.plan, load, measured)
    step = step_time(load, services, resources)
    online = train is not None and isinstance(train.algorithm, OnlineSpec)
    size = train.algorithm.group_size if train is not None and online else 1
    sequences = resources.sequences * resources.policy_replicas
    batch = max(1.0, step.decoding / resources.policy_replicas)
    return Workshop(
        groups=max(1, load.episodes // size),
        group_size=size,
        in_flight=min(load.in_flight, load.episodes),
        turns=measured.turns,
        horizon=horizon,
        policy_seconds=_spread([turn.policy_seconds for turn in measured.sampled_turns], services.turn(load, batch)),
        env_seconds=_spread([turn.env_seconds for turn in measured.sampled_turns], services.env_step),
        reset_seconds=services.env_reset,
        policy_places=min(sequences, load.episodes),
        env_places=max(1, round(resources.env_replicas * resources.env_places)),
        failures=load.failures,
        most_attempts=load.most_attempts,
        after_play=step.update + step.weight_sync + step.checkpoint,
    )


def _spread(values: Sequence[float], mean: float) -> Sequence[float]:
    """Measured values brought to a mean, so that their tail is kept; the mean alone where none were kept."""
    total = sum(values)
    return [mean] if total <= 0 else [value * mean * len(values) / total for value in values]
