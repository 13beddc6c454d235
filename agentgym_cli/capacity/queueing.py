"""A closed loop of episodes between a policy and its worlds: Little's law and utilisation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A closed loop: ``customers`` go round between a policy and the worlds, each turn once through both."""

    turns_per_second: float
    policy_utilisation: float
    env_utilisation: float
    turn_seconds: float
    """Of one turn of one episode, waiting included: Little's law on the whole loop."""


def closed_loop(customers: float, *, policy_seconds: float, policy_places: float, env_seconds: float, env_places: float) -> Loop:
    """Throughput by the bounds that no loop can pass: that of its slowest station, and that of its population.

    Each is exact at its end; between them the truth lies below, by the waiting that happens by chance.

    Args:
        customers: episodes in flight, more than 0.
        policy_places, env_places: jobs that a station has in service at once, more than 0.
        policy_seconds, env_seconds: of one job, at least one of them more than 0.
    """
    if not (customers > 0 and policy_places > 0 and env_places > 0 and policy_seconds >= 0 and env_seconds >= 0):
        raise ValueError("loop: expected episodes, places and seconds that are not negative")
    around = policy_seconds + env_seconds
    if around <= 0:
        raise ValueError("loop: expected a turn that takes some time")
    bounds = [customers / around]
    bounds += [places / seconds for places, seconds in ((policy_places, policy_seconds), (env_places, env_seconds)) if seconds > 0]
    rate = min(bounds)
    return Loop(
        turns_per_second=rate,
        policy_utilisation=rate * policy_seconds / policy_places,
        env_utilisation=rate * env_seconds / env_places,
        turn_seconds=customers / rate,
    )
