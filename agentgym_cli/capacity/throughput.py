"""How long a step takes, which phase holds it up, what each doubling would save, and how many of everything are enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from agentgym_cli.capacity.queueing import closed_loop
from agentgym_cli.capacity.service import Load, Services

BUSY = 0.7
"""Utilisation above which waiting by chance grows quickly; what is sized to keep another from waiting stays below."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """How many of everything there are: separate budgets."""

    env_replicas: int
    env_places: float
    """Calls that one replica answers at once, 1 or more."""
    policy_replicas: int
    sequences: int
    """Episodes that one replica of the policy decodes at once."""
    update_speed: float = 1.0
    """1 is the devices as they are, 2 twice as many that train."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One step, in seconds."""

    play: float
    """From the first reset to the end of the last episode."""
    update: float
    weight_sync: float
    checkpoint: float
    """Averaged over the steps between two."""
    busy: dict[str, float]
    """Seconds that each phase alone would need, by name, with everything else free of charge."""
    policy_utilisation: float
    """While episodes are played."""
    env_utilisation: float
    turn_seconds: float
    decoding: float
    """Episodes that are with the policy at once, on average, on all its replicas."""

    @property
    def total(self) -> float:
        """All of it, one after the other."""
        return self.play + self.update + self.weight_sync + self.checkpoint

    @property
    def slowest(self) -> str:
        """The phase that holds the step up most: the busiest."""
        return max(self.busy, key=lambda name: self.busy[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """How many are enough, and not more."""

    env_replicas: int
    """So that the policy never waits for a world, by utilisation below 0.7."""
    policy_replicas: int | None
    """So that worlds never wait for the policy; None where one replica for each episode would still be too slow."""
    concurrency: int
    """Episodes in flight that keep the policy busy, by Little's law."""

    @property
    def why_no_policy_replicas(self) -> str | None:
        """Why no number of them is enough; None where one is."""
        return None if self.policy_replicas is not None else "no number of copies is enough, since they answer faster than all episodes can ask"


def step_time(load: Load, services: Services, resources: Resources) -> StepTime:
    """One step with these resources: episodes run beside each other, then the update, the weights, the checkpoint."""
    in_flight = min(load.in_flight, load.episodes)
    batch = batch_of(load, services, resources)
    policy = services.turn(load, max(1.0, batch))
    decoding, places = batch * resources.policy_replicas, resources.policy_replicas * resources.sequences
    env_places = resources.env_replicas * resources.env_places
    loop = closed_loop(in_flight, policy_seconds=policy, policy_places=places, env_seconds=services.env_step, env_places=env_places)
    resets = load.attempts * services.env_reset / env_places
    # Until its mean length an episode has the company of all others; the longest then goes on alone.
    alone, tail = services.turn(load, 1.0), load.horizon - load.mean_turns
    play = resets + load.turns / loop.turns_per_second + tail * (alone + services.env_step)
    reading = load.turns / decoding * services.reading(load, batch) + tail * services.reading(load, 1.0)
    playing = {
        "env reset": resets,
        "env step": (load.turns / env_places + tail) * services.env_step,
        "prefill": reading,
        "decode": load.turns / decoding * policy + tail * alone - reading,
    }
    busy = {
        **(playing if load.played else dict.fromkeys(playing, 0.0)),
        "update": services.update / resources.update_speed,
        "weight sync": services.weight_sync,
        "checkpoint": services.checkpoint / load.checkpoint_every,
    }
    return StepTime(
        play=play if load.played else 0.0,
        update=busy["update"],
        weight_sync=busy["weight sync"],
        checkpoint=busy["checkpoint"],
        busy=busy,
        policy_utilisation=loop.policy_utilisation,
        env_utilisation=loop.env_utilisation,
        turn_seconds=loop.turn_seconds,
        decoding=decoding,
    )


def batch_of(load: Load, services: Services, resources: Resources) -> float:
    """Episodes that decode together on one replica: as many as it holds, or what is left of those in flight by those that are with a world.

    Solves b * replicas * (1 + env / turn(b)) = in flight, whose left side grows with b, by halving.
    """
    in_flight = min(load.in_flight, load.episodes)

    def busy(batch: float) -> float:
        return batch * resources.policy_replicas * (1 + services.env_step / services.turn(load, max(1.0, batch)))

    low, high = 0.0, float(resources.sequences)
    if busy(high) <= in_flight:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if busy(middle) <= in_flight else (low, middle)
    return high


def doublings(load: Load, services: Services, resources: Resources, *, cached: int) -> dict[str, float]:
    """Seconds of a step that twice as much of one thing would save, by its name; never negative.

    Args:
        cached: episodes that the cache of one replica of the policy holds with twice the slots.
    """
    now = step_time(load, services, resources).total
    changed = {
        "env replicas": replace(resources, env_replicas=2 * resources.env_replicas),
        "policy replicas": replace(resources, policy_replicas=2 * resources.policy_replicas),
        "cache for sequences": replace(resources, sequences=2 * resources.sequences),
        "devices that train": replace(resources, update_speed=2 * resources.update_speed),
        "devices": replace(resources, update_speed=2 * resources.update_speed, policy_replicas=2 * resources.policy_replicas),
    }
    saved = {name: max(0.0, now - step_time(load, services, more).total) for name, more in changed.items()}
    # More slots alone do nothing without episodes that take them.
    slots = replace(resources, sequences=max(resources.sequences, min(2 * resources.sequences, cached)))
    return saved | {"slots": max(0.0, now - step_time(replace(load, in_flight=2 * load.in_flight), services, slots).total)}


def enough(load: Load, services: Services, resources: Resources) -> Sizing:
    """Sizes at which neither side waits for the other."""
    fed = step_time(load, services, replace(resources, env_replicas=10**6))
    rate = min(load.in_flight, load.episodes) / fed.turn_seconds
    worlds = max(1, ceil(rate * services.env_step / (BUSY * resources.env_places)))
    full = services.turn(load, float(resources.sequences))
    kept_busy = ceil(resources.policy_replicas * resources.sequences * (1 + services.env_step / full))
    return Sizing(env_replicas=worlds, policy_replicas=_feeding(load, services, resources), concurrency=kept_busy)


def _feeding(load: Load, services: Services, resources: Resources) -> int | None:
    """Replicas of the policy whose turns, with a world that takes no time, come as fast as the worlds can answer."""
    if services.env_step <= 0:
        return None
    served = BUSY * resources.env_replicas * resources.env_places / services.env_step
    low, high = 1, load.episodes
    if _turns_per_second(load, services, replace(resources, policy_replicas=high)) < served:
        return None
    while low < high:
        middle = (low + high) // 2
        enough_there = _turns_per_second(load, services, replace(resources, policy_replicas=middle)) >= served
        low, high = (low, middle) if enough_there else (middle + 1, high)
    return low


def _turns_per_second(load: Load, services: Services, resources: Resources) -> float:
    """What the policy alone could do, with a world that takes no time."""
    in_flight = min(load.in_flight, load.episodes, resources.policy_replicas * resources.sequences)
    return in_flight / services.turn(load, max(1.0, in_flight / resources.policy_replicas))
