"""The whole of a resolved recipe. Only ``verbs/`` sees a Run; every other room takes its section."""

from __future__ import annotations

from agentgym_cli.recipe.schema.base import Name, NonNegative, section
from agentgym_cli.recipe.schema.learning import EngineSpec, EvaluationSpec, HorizonSpec, TrainSpec, WarmStartSpec
from agentgym_cli.recipe.schema.policy import PolicySpec
from agentgym_cli.recipe.schema.world import BudgetsSpec, EnvSpec, PromptSpec, RetrySpec, TasksSpec


@section
class StoreSpec:
    """Where results go. Paths never change a result, so they are outside the digest."""

    runs_dir: str = "runs"
    """Folder that gets one folder per run."""
    database: str = "results.duckdb"
    """Store file; several runs can share it."""
    keep_tokens: bool = False
    """Keep token ids, mask and log-probabilities of every attempt in the journal."""


@section
class Run:
    """A resolved recipe: validated, defaults filled in, one profile chosen."""

    name: Name
    """How lists and reports call the run."""
    description: str = ""
    """For people; changes no result."""
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
    policy: PolicySpec
    horizon: HorizonSpec
    """Turn limit of training episodes by step."""
    warm_start: WarmStartSpec | None = None
    train: TrainSpec | None = None
    evaluation: EvaluationSpec
    engine: EngineSpec
    store: StoreSpec = StoreSpec()
