"""Rules between the values of a run that no single field can state. Each returns sentences ``key: expected, got``; reads no file."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_cli.recipe.schema.learning import IncrementHorizon, StagesHorizon
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.wording import shown
from agentgym_cli.recipe.yaml import KeyPath

Finding = tuple[KeyPath, str]
"""Where, and ``expected ..., got ...``."""


def broken_rules(run: Run) -> Iterator[Finding]:
    """What makes the run impossible."""
    yield from _world(run)
    yield from _horizon(run)
    yield from _sizes(run)
    if run.tasks.train is None and (run.train is not None or run.warm_start is not None):
        yield ("tasks", "train"), "expected a split to train on, got null"
    names = [split.name for split in run.tasks.evaluation]
    for number, name in enumerate(names):
        if name in names[:number]:
            yield ("tasks", "evaluation", number, "name"), f"expected each split once, got {shown(name)} again"


def doubts(run: Run) -> Iterator[Finding]:
    """What is possible and probably not meant."""
    if run.train is not None:
        yield from _unreached(run.horizon, run.train.steps)


def _world(run: Run) -> Iterator[Finding]:
    if run.env.urls is None and run.env.world is None:
        yield ("env",), "expected urls of running servers or the name of a world to serve, got neither"
    if run.env.urls is not None and not run.env.urls:
        yield ("env", "urls"), "expected at least one address or null, got an empty list"
    for number, url in enumerate(run.env.urls or ()):
        if not url.startswith(("http://", "https://")):
            yield ("env", "urls", number), f"expected an address that starts with http:// or https://, got {shown(url)}"


def _horizon(run: Run) -> Iterator[Finding]:
    horizon = run.horizon
    if isinstance(horizon, StagesHorizon):
        stages, lengths = len(horizon.turns), len(horizon.steps)
        if lengths not in (1, stages - 1, stages):
            yield ("horizon", "steps"), f"expected 1, {stages - 1} or {stages} lengths for {stages} stages, got {lengths}"
    if isinstance(horizon, IncrementHorizon) and horizon.cap < horizon.start:
        yield ("horizon", "cap"), f"expected at least start ({horizon.start}), got {horizon.cap}"


def _sizes(run: Run) -> Iterator[Finding]:
    budgets, train = run.budgets, run.train
    if budgets.response_tokens >= budgets.context_tokens:
        yield ("budgets", "response_tokens"), f"expected less than context_tokens ({budgets.context_tokens}), got {budgets.response_tokens}"
    if train is not None:
        episodes = train.tasks_per_step * train.algorithm.group_size
        if train.updates_per_step > episodes:
            yield ("train", "updates_per_step"), f"expected at most the {episodes} episodes of a step, got {train.updates_per_step}"


def _unreached(horizon: object, steps: int) -> Iterator[Finding]:
    if isinstance(horizon, StagesHorizon):
        lengths = horizon.steps if len(horizon.steps) > 1 else horizon.steps * (len(horizon.turns) - 1)
        before_last = sum(lengths[: len(horizon.turns) - 1])
        if len(horizon.turns) > 1 and steps <= before_last:
            yield ("horizon",), f"expected every stage to be reached, got {steps} steps where the last stage starts after step {before_last}"
    if isinstance(horizon, IncrementHorizon):
        rises = -(-(horizon.cap - horizon.start) // horizon.increment)
        if rises > 0 and steps <= rises * horizon.every:
            yield ("horizon",), f"expected the cap to be reached, got {steps} steps where it is reached after step {rises * horizon.every}"
