"""What a run acts in: the environment, its tasks, and what the policy is told about them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentgym_cli.recipe.schema.base import Count, Name, Share, section


@section
class EnvSpec:
    """An environment: a dialect, and where its servers are."""

    dialect: Annotated[str, Field(min_length=1)]
    """Name of a shipped dialect, or path of a dialect file."""
    urls: tuple[str, ...] | None = None
    """Base URLs of running replicas; None serves ``world`` on free loopback ports for the time of the run."""
    world: Name | None = None
    """Name of the shipped world to serve when ``urls`` is None."""
    world_args: tuple[str, ...] = ()
    """Further arguments of ``agentgym serve``, e.g. ``--book laptop``."""
    replicas: Count = 1
    """How many servers to start when ``urls`` is None."""
    token_variable: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] | None = None
    """Environment variable that holds a bearer token; None sends none. The value is never stored."""
    max_infra_share: Share = 0.05
    """Infra errors allowed among scheduled episodes of a phase before the run is called degraded (exit 9)."""


@section
class SplitSpec:
    """A named list of tasks."""

    name: Name
    """How reports call it, e.g. ``unseen_goals``."""
    ids: Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")] | None = None
    """Task numbers, e.g. ``0-30,140-180``; None takes the rows of the manifest whose split has this name."""


@section
class TasksSpec:
    """Which tasks a run draws and is judged on."""

    manifest: Annotated[str, Field(min_length=1)]
    """CSV with columns index, split, category, goal, digest; the digest pins the first observation of a task."""
    train: SplitSpec | None = None
    """Tasks that training and demonstrations draw from; None in a recipe that only evaluates."""
    evaluation: Annotated[tuple[SplitSpec, ...], Field(min_length=1)]
    """Splits that evaluations run, reported apart."""


@section
class PromptSpec:
    """What the policy is told, and how its words become an action."""

    system: Annotated[str, Field(min_length=1)] | None = None
    """Text file with the instructions; None uses the dialect's own prompt; ``none`` says nothing."""
    turn_format: Literal["words", "chatml"] = "chatml"
    """How turns are laid out as tokens."""
    action_format: Literal["react", "plain"] = "react"
    """``react`` reads the text behind ``Action:``; ``plain`` takes the whole response."""


@section
class BudgetsSpec:
    """Limits of one episode, each with its own stop reason. The turn limit is the horizon, and lives in ``horizon``."""

    response_tokens: Count = 512
    """Most tokens the policy may sample in one turn."""
    context_tokens: Count = 32768
    """Most tokens of context; checked before each policy call."""
    policy_call_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Deadline of one policy call."""
    env_call_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Deadline of one environment call."""
    episode_seconds: Annotated[float, Field(gt=0)] = 3600.0
    """Deadline of the whole episode."""


@section
class RetrySpec:
    """How often an infra error is tried again. Attempts are all kept."""

    attempts: Count = 3
    """Most attempts at one scheduled episode, the first included; 1 never retries."""
