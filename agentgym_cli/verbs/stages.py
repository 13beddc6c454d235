"""The stages of a run's horizon over its planned steps, for showing before anything starts."""

from __future__ import annotations

from itertools import groupby

from agentgym_cli.learn.schedules import horizon_at
from agentgym_cli.recipe.schema.run import Run


def horizon_stages(run: Run) -> list[tuple[int, int, int]]:
    """First step, last step and turns of each span of one horizon; empty for a recipe that only evaluates."""
    steps = 0 if run.train is None else run.train.steps
    spans = groupby(range(1, steps + 1), key=lambda step: horizon_at(run.horizon, step))
    found = []
    for turns, members in spans:
        span = list(members)
        found.append((span[0], span[-1], turns))
    return found
