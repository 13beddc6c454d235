"""The whole of a resolved recipe. Only ``verbs/`` sees a Run; every other room takes its section."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentgym_cli.recipe.schema.about import AboutSpec
from agentgym_cli.recipe.schema.base import Name, NonNegative, section
from agentgym_cli.recipe.schema.computing import ClusterSpec, EngineSpec, StoreSpec
from agentgym_cli.recipe.schema.learning import EvaluationSpec, HorizonSpec, TrainSpec, WarmStartSpec
from agentgym_cli.recipe.schema.policy import PolicySpec
from agentgym_cli.recipe.schema.world import BudgetsSpec, EnvSpec, PromptSpec, RetrySpec, RewardSpec, TasksSpec


@section
class Run:
    """A resolved recipe: validated, defaults filled in, one profile chosen."""

    name: Name
    """How lists and reports call the run."""
    description: Annotated[str, Field(max_length=2000)] = ""
    """For people; changes no result."""
    about: AboutSpec = AboutSpec()
    profile: Name
    """Name of the chosen profile."""
    profile_reason: str
    """Why it was chosen; shown and stored, outside the digest."""
    seed: NonNegative
    """Every draw of the run is derived from it."""
    env: EnvSpec
    tasks: TasksSpec
    prompt: PromptSpec
    budgets: BudgetsSpec
    retry: RetrySpec
    reward: RewardSpec = RewardSpec()
    policy: PolicySpec
    horizon: HorizonSpec
    """Turn limit of training episodes by step."""
    warm_start: WarmStartSpec | None = None
    """None starts from the model as it is."""
    train: TrainSpec | None = None
    """None in a recipe that only evaluates."""
    evaluation: EvaluationSpec
    engine: EngineSpec
    cluster: ClusterSpec | None = None
    """None for an engine in one process."""
    store: StoreSpec = StoreSpec()
