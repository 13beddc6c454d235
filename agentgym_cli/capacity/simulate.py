"""Steps played event by event, where closed forms end: drawn turn counts, heavy tails, barriers and failures. The only owner of simpy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import simpy

Waits = Generator[simpy.Event, Any, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a step is made of. Every list is drawn from with replacement, each value as likely as another."""

    groups: int
    group_size: int
    in_flight: int
    """Most episodes at work at once."""
    turns: Sequence[int]
    """Turns of an episode, cut at ``horizon``."""
    horizon: int
    policy_seconds: Sequence[float]
    """Of one turn, waiting for a place not counted."""
    env_seconds: Sequence[float]
    reset_seconds: float
    policy_places: int
    env_places: int
    failures: float
    """Chance that an attempt fails, at a turn of its own."""
    most_attempts: int
    """At one episode."""
    after_play: float
    """Seconds of update, weights and checkpoint behind the last episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSteps:
    """Steps as they came out; shares are of the time in which episodes are played, over all steps."""

    steps: int
    seconds_p50: float
    """Of one step, whole."""
    seconds_p95: float
    play_mean: float
    policy_idle: float
    """No episode was with the policy."""
    env_idle: float
    """No episode was with a world."""
    policy_used: float
    """Places of the policy in use, of all its places."""
    env_used: float
    straggler_share: float
    """From when nine tenths of the episodes were done to the end."""
    group_wait: float
    """Mean wait of an episode for the slowest of its group, as a share of play."""
    lock_step_p50: float
    """The same draws in a loop in which everybody's turn ends before anybody's next one begins."""


class Station:
    """Places that serve in the order of arrival, and how much they were used."""

    def __init__(self, clock: simpy.Environment, places: int) -> None:
        self._clock = clock
        self._resource = simpy.Resource(clock, capacity=places)
        self.used = 0.0
        """Seconds of service, over all places."""
        self.empty = 0.0
        """Seconds in which nobody was served."""
        self._inside = 0
        self._emptied = 0.0

    def serve(self, seconds: float) -> Waits:
        """Wait for a place and keep it so long."""
        with self._resource.request() as place:
            yield place
            if self._inside == 0:
                self.empty += self._clock.now - self._emptied
            self._inside += 1
            yield self._clock.timeout(seconds)
            self._inside -= 1
            self._emptied = self._clock.now
            self.used += seconds

    def close(self) -> None:
        """Count the emptiness since the last service."""
        if self._inside == 0:
            self.empty += self._clock.now - self._emptied
            self._emptied = self._clock.now


@dataclass(slots=True)
class _Played:
    """One step's play."""

    ends: list[list[float]]
    """When each episode ended, by group."""
    drawn: list[list[tuple[float, float]]]
    """Policy and world seconds of every turn, by attempt."""

    @property
    def seconds(self) -> float:
        return max(max(group) for group in self.ends)


def simulate_steps(shop: Workshop, *, steps: int, seed: int) -> SimulatedSteps:
    """Play that many steps, one after the other, each with draws of its own; the same seed draws the same.

    Raises ValueError for an empty list, a number of episodes or places below 1, or no step.
    """
    least = min(
        shop.groups,
        shop.group_size,
        shop.in_flight,
        shop.policy_places,
        shop.env_places,
        shop.horizon,
        shop.most_attempts,
        min(shop.turns, default=0),
        steps,
    )
    if least < 1 or not (shop.turns and shop.policy_seconds and shop.env_seconds):
        raise ValueError(f"simulation: expected at least one of everything, got {least} of something, or an empty list")
    totals, plays, locked, tails, waits = [], [], [], [], []
    idle, env_idle, used, env_used = 0.0, 0.0, 0.0, 0.0
    for number in range(steps):
        clock = simpy.Environment()
        policy, worlds = Station(clock, shop.policy_places), Station(clock, shop.env_places)
        played = _play(shop, clock, policy, worlds, Random(f"{seed}/{number}"))
        for station in (policy, worlds):
            station.close()
        plays.append(played.seconds)
        totals.append(played.seconds + shop.after_play)
        locked.append(_locked(shop, played.drawn) + shop.after_play)
        tails.append(_tail(played))
        waits.append(_group_wait(played))
        idle, env_idle, used, env_used = idle + policy.empty, env_idle + worlds.empty, used + policy.used, env_used + worlds.used
    clocked = sum(plays)
    return SimulatedSteps(
        steps=steps,
        seconds_p50=quantile(totals, 0.5),
        seconds_p95=quantile(totals, 0.95),
        play_mean=clocked / steps,
        policy_idle=_share(idle, clocked),
        env_idle=_share(env_idle, clocked),
        policy_used=_share(used, clocked * shop.policy_places),
        env_used=_share(env_used, clocked * shop.env_places),
        straggler_share=_share(sum(tails), clocked),
        group_wait=_share(sum(waits), clocked),
        lock_step_p50=quantile(locked, 0.5),
    )


def _play(shop: Workshop, clock: simpy.Environment, policy: Station, worlds: Station, draw: Random) -> _Played:
    played = _Played(ends=[[0.0] * shop.group_size for _ in range(shop.groups)], drawn=[])
    gate = simpy.Resource(clock, capacity=shop.in_flight)

    def episode(group: int, member: int) -> Waits:
        with gate.request() as place:
            yield place
            for turns in _attempts(shop, draw):
                played.drawn.append(turns)
                yield from worlds.serve(shop.reset_seconds)
                for thinking, acting in turns:
                    yield from policy.serve(thinking)
                    yield from worlds.serve(acting)
        played.ends[group][member] = clock.now

    for group in range(shop.groups):
        for member in range(shop.group_size):
            clock.process(episode(group, member))
    clock.run()
    return played


def _attempts(shop: Workshop, draw: Random) -> list[list[tuple[float, float]]]:
    """Seconds of every turn of the attempts at one episode: some that fail on the way, then one that does not, unless there are no more."""
    turns = min(draw.choice(shop.turns), shop.horizon)
    made = []
    for _ in range(shop.most_attempts):
        failed = draw.random() < shop.failures
        made.append(_drawn(shop, draw, draw.randint(1, max(1, turns)) if failed else turns))
        if not failed:
            break
    return made


def _drawn(shop: Workshop, draw: Random, turns: int) -> list[tuple[float, float]]:
    return [(draw.choice(shop.policy_seconds), draw.choice(shop.env_seconds)) for _ in range(turns)]


def _locked(shop: Workshop, drawn: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Rounds in which all that are left think, then all act; places that are fewer than episodes are gone through in turn."""
    total = len(drawn) * shop.reset_seconds / shop.env_places
    for number in range(max(map(len, drawn))):
        turns = [attempt[number] for attempt in drawn if number < len(attempt)]
        total += _round([thinking for thinking, _ in turns], shop.policy_places) + _round([acting for _, acting in turns], shop.env_places)
    return total


def _round(seconds: Sequence[float], places: int) -> float:
    """No schedule of jobs on places is shorter than the longest job, nor than all of them evenly spread."""
    return max(max(seconds), sum(seconds) / places)


def _tail(played: _Played) -> float:
    ends = sorted(end for group in played.ends for end in group)
    return ends[-1] - ends[max(0, -(-9 * len(ends) // 10) - 1)]


def _group_wait(played: _Played) -> float:
    waits = [max(group) - end for group in played.ends for end in group]
    return sum(waits) / len(waits)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between the two nearest ranks. Raises ValueError without values."""
    if not values:
        raise ValueError("quantile: expected values, got none")
    ranked = sorted(values)
    place = share * (len(ranked) - 1)
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (place - low) * (ranked[high] - ranked[low])
