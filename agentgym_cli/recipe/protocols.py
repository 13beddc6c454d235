"""Published evaluation procedures, as far as they are public, and where a run that claims one departs from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.yaml import KeyPath

TURNS: Mapping[str, Mapping[str, int]] = {
    # max_rounds of the evaluation scripts of AgentGym-RL at commit 82402a9
    "agentgym-rl": {"textcraft": 30, "babyai": 20, "sciworld": 30, "searchqa": 30, "webarena": 15},
    # most rounds for each task in AgentGym's evolution script at commit 3ef9235
    "agenteval": {
        "webshop": 10,
        "alfworld": 30,
        "textcraft": 20,
        "sciworld": 30,
        "sqlgym": 1,
        "wordle": 8,
        "maze": 15,
        "babyai": 20,
        "weather": 10,
        "movie": 12,
        "todo": 15,
        "academia": 12,
        "sheet": 15,
        "webarena": 25,
    },
}
"""Turn limit of each environment, by protocol."""


def departures(run: Run) -> Iterator[tuple[KeyPath, str]]:
    """What keeps the evaluation from being the one that it claims to follow: where, and ``expected ..., got ...``."""
    spec = run.evaluation
    if spec.protocol == "own":
        return
    if spec.protocol == "agentgym2":
        yield ("evaluation", "protocol"), "expected a public procedure, got agentgym2: its tasks, metric and harness are not, so nothing compares"
        return
    env = PurePath(run.env.dialect).stem
    turns = TURNS[spec.protocol].get(env)
    says = f"what protocol {spec.protocol} says"
    if turns is None:
        yield ("evaluation", "protocol"), f"expected an environment of {spec.protocol}, got {env}"
    elif spec.horizon != turns:
        yield ("evaluation", "horizon"), f"expected {turns}, {says} for {env}, got {spec.horizon}"
    if spec.samples_per_task != 1:
        yield ("evaluation", "samples_per_task"), f"expected 1, {says}, got {spec.samples_per_task}"
    temperature = run.policy.sampling.temperature if spec.temperature is None else spec.temperature
    if spec.protocol == "agentgym-rl" and temperature != 1.0:
        yield ("evaluation", "temperature"), f"expected 1.0, {says}, got {temperature}"
    if spec.only is not None:
        yield ("evaluation", "only"), f"expected null, since protocol {spec.protocol} runs every task, got a choice of tasks"
    if spec.limit is not None:
        yield ("evaluation", "limit"), f"expected null, since protocol {spec.protocol} runs every task, got {spec.limit}"
