"""Two worlds whose best policy is known, played by a tabular policy: a bandit and a chain of five states."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from agentgym_cli.learn.experience import Member
from tests.learn.tabular import Table, probabilities, trajectory_of

ARMS = (0.1, 0.5, 0.9, 0.3)
"""What each arm pays on average: 1 with this probability, else nothing."""
STATES = 5
LEFT, RIGHT = 5, 6
LONGEST = 8
"""Turns of the chain; the way from the second state to the far end takes three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One that a tabular policy plays."""

    tokens: int
    play: Callable[[Table, random.Random], Member]
    value: Callable[[Table], float]
    """What the policy earns on average, exactly."""
    best: float


def _say(table: Table, seen: int, draw: random.Random) -> tuple[int, float]:
    """A token and its log-probability; tokens that are no action are drawn too, so the policy has to learn which are."""
    weights = probabilities(table, seen)
    token = draw.choices(range(len(weights)), weights)[0]
    return token, math.log(weights[token])


def _pull(table: Table, draw: random.Random) -> Member:
    token, logp = _say(table, 0, draw)
    paid = float(1 <= token <= 4 and draw.random() < ARMS[token - 1])
    return Member(reward=paid, trajectory=trajectory_of([0, token], "oa", [logp]))


def _pull_value(table: Table) -> float:
    weights = probabilities(table, 0)
    return sum(weights[arm] * paid for arm, paid in enumerate(ARMS, start=1))


def _move(state: int, token: int) -> int:
    return state + 1 if token == RIGHT else state - 1 if token == LEFT else state


def _walk(table: Table, draw: random.Random) -> Member:
    """From the second state: the far end pays 1, the near one 1/4 and both end it; each turn pays where it arrives."""
    state, ids, logprobs, paid = 1, [], [], []
    for turn in range(LONGEST):
        token, logp = _say(table, state, draw)
        ids += [state, token]
        logprobs.append(logp)
        state = _move(state, token)
        if state in (0, STATES - 1):
            paid = [(2 * turn + 1, _worth(state))]
            break
    total = sum(amount for _, amount in paid)
    return Member(reward=total, trajectory=trajectory_of(ids, "oa" * (len(ids) // 2), logprobs), payments=tuple(paid))


def _worth(state: int) -> float:
    return {0: 0.25, STATES - 1: 1.0}.get(state, 0.0)


def _walk_value(table: Table) -> float:
    """By dynamic programming over the turns that are left."""
    values = [_worth(state) for state in range(STATES)]
    left = [0.0] * STATES
    for _ in range(LONGEST):
        now = list(left)
        for state in range(1, STATES - 1):
            weights = probabilities(table, state)
            ahead, back = (values[to] if to in (0, STATES - 1) else left[to] for to in (state + 1, state - 1))
            now[state] = weights[RIGHT] * ahead + weights[LEFT] * back + (1 - weights[RIGHT] - weights[LEFT]) * left[state]
        left = now
    return left[1]


BANDIT = World(tokens=5, play=_pull, value=_pull_value, best=max(ARMS))
CHAIN = World(tokens=7, play=_walk, value=_walk_value, best=1.0)
