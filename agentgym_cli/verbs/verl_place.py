"""Where a run on verl has its files, and what its processes are told beside them. Pure; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.asked import Launch
from agentgym_cli.learn.verl.keys import REINFORCING, Keys
from agentgym_cli.learn.verl.settings import Setting, arguments, settings
from agentgym_cli.learn.verl.sft.keys import IMITATING
from agentgym_cli.learn.verl.sft.settings import SftLaunch, sft_settings
from agentgym_cli.recipe.resolve import resolve
from agentgym_cli.recipe.schema.algorithms import OnlineSpec, SftSpec
from agentgym_cli.recipe.schema.run import Run

FOLDER = "verl"
"""Inside a run's folder: what verl is given, what it writes, what it says."""
PLUGIN = "agentgym_cli.learn.verl.plugin"
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "RAY_DISABLE_METRICS_COLLECTION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "VERL_USE_EXTERNAL_MODULES": PLUGIN,
    "VERL_USE_EXTERNAL_PLUGINS": "none",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
"""Environment variables of every process of a launch."""
ON_CPU = {
    "OMP_NUM_THREADS": "1",
    "RAY_memory_usage_threshold": "0.99",
    "RAY_worker_niceness": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": f"{PLUGIN},agentgym_cli.learn.verl.platform_cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""The same in a rehearsal, on top."""


def rehearses(run: Run) -> bool:
    """Whether a CPU stands for the GPUs."""
    return run.cluster is not None and run.cluster.gpus_per_node == 0


def variables_of(run: Run) -> dict[str, str]:
    """Environment variables of every process of verl's for a run."""
    return {**VARIABLES, **(ON_CPU if rehearses(run) else {})}


def launch_of(
    run: Run,
    *,
    name: str,
    model: str,
    folder: Path,
    resume_from: Path | None,
    evaluate_first: bool,
    evaluate_only: bool,
    variables: Mapping[str, str] | None = None,
) -> Launch:
    """What a launch of a run is told, with all its files in ``folder``; ``variables`` are beside those that every run's processes have."""
    return Launch(
        name=name,
        model=model,
        train_rows=str(folder / "rows-train.jsonl"),
        evaluation_rows=str(folder / "rows-evaluation.jsonl"),
        loops=str(folder / "loops.yaml"),
        checkpoints=str(folder / "checkpoints"),
        resume_from=None if resume_from is None else str(resume_from.absolute()),
        evaluate_first=evaluate_first,
        evaluate_only=evaluate_only,
        variables={**variables_of(run), **(variables or {})},
    )


def sft_launch_of(*, name: str, model: str, folder: Path, resume_from: Path | None) -> SftLaunch:
    """The same where demonstrations are learned."""
    return SftLaunch(
        name=name,
        model=model,
        demonstrations=str(folder / "demonstrations.jsonl"),
        updates=str(folder / "updates.jsonl"),
        checkpoints=str(folder / "checkpoints"),
        resume_from=None if resume_from is None else str(resume_from.absolute()),
    )


def settings_of(run: Run) -> tuple[Setting, ...]:
    """What a new run would tell verl, its folder as ``runs/NAME``. Raises RecipeError for a run that is none of verl's."""
    if run.engine.kind != "verl" or run.train is None or not isinstance(run.train.algorithm, OnlineSpec | SftSpec):
        got, hint = (f"engine {run.engine.kind}", "name it: profile=gpu") if run.engine.kind != "verl" else ("nothing", "agentgym eval RECIPE")
        raise RecipeError(f"profile {run.profile}: expected engine verl and something to train, got {got}", hint)
    folder = Path(run.store.runs_dir) / "NAME" / FOLDER
    model = str(folder / "model") if rehearses(run) else run.policy.own_model.path
    if isinstance(run.train.algorithm, SftSpec):
        return sft_settings(run, sft_launch_of(name="NAME", model=model, folder=folder, resume_from=None))
    launch = launch_of(run, name="NAME", model=model, folder=folder, resume_from=None, evaluate_first=True, evaluate_only=False)
    return settings(run, launch)


def keys_of(run: Run) -> Keys:
    """What the trainer that the run's algorithm needs can be told."""
    return IMITATING if run.train is not None and isinstance(run.train.algorithm, SftSpec) else REINFORCING


def words_of(run: Run, found: Sequence[Setting]) -> list[str]:
    """Settings as words of the trainer's command line."""
    return arguments(found, keys=keys_of(run).listed())


def resolved_settings(target: str, overrides: Sequence[str]) -> tuple[tuple[Setting, ...], list[str]]:
    """What verl would be told for a recipe and its overrides, as settings and as words, one for each. Raises RecipeError."""
    run = resolve(target, overrides).run
    found = settings_of(run)
    return found, words_of(run, found)
