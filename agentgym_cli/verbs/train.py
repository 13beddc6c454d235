"""``agentgym train``: freeze, probe, warm start, evaluate, reinforce, evaluate again. The order of things, and nothing else."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentgym_cli.errors import RecipeError
from agentgym_cli.learn.verl.launch import end_left_over
from agentgym_cli.recipe.lock import require_engine
from agentgym_cli.recipe.schema.algorithms import SftSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.stored_rules import asks_oracle, plays_training_tasks
from agentgym_cli.verbs.degraded import InfraShare
from agentgym_cli.verbs.estimate import Estimate
from agentgym_cli.verbs.folders import Checkpoint, last_checkpoint
from agentgym_cli.verbs.gpu_use import claimed_gpus
from agentgym_cli.verbs.history import History
from agentgym_cli.verbs.home import claim_folder, keep_observed
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.play import Stage, infra_share, stage_of
from agentgym_cli.verbs.preflight import keep_estimate, keep_peak, preflight
from agentgym_cli.verbs.prepare import Prepared, prepare
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.qualify import Weigh, require_cheap_checks
from agentgym_cli.verbs.ray_checks import require_ray
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.request import Request
from agentgym_cli.verbs.schedules import evaluation_schedule
from agentgym_cli.verbs.segment import Finished, hold, open_segment
from agentgym_cli.verbs.served_checks import require_model_files
from agentgym_cli.verbs.stored import Stored, read_stored
from agentgym_cli.verbs.turns import turn_tokens
from agentgym_cli.verbs.verl_checks import require_launchable
from agentgym_cli.verbs.verl_place import FOLDER, settings_of
from agentgym_cli.verbs.world import open_world

if TYPE_CHECKING:
    from agentgym_cli.verbs.local import LocalEngine


class Exporter(Protocol):
    """Writes the model of a run's checkpoint as a folder; see ``verbs/export.py``."""

    def __call__(self, run: str, *, step: int | None, folder: Path | None, database: Path, runs_dir: Path) -> object:
        """Write it."""


def train_policy(request: Request, progress: Progress) -> Finished:
    """Train as the recipe says, or go on with a run. Every cheap check comes before torch is loaded.

    Raises:
        AgentgymError: what stopped it, with its exit code; everything recorded up to there is kept.
    """
    prepared = prepare(request, verb="train", progress=progress)
    spec = _trainable(prepared)
    with ExitStack() as held:
        if prepared.run.engine.kind == "verl":
            _require_launch(prepared, held)
        stored = read_stored(prepared, progress)
        estimate = preflight(prepared, progress)
        require_cheap_checks(prepared, progress)
        prepared = claim_folder(prepared, progress)
        if prepared.run.engine.kind == "verl":
            return _on_verl(prepared, spec, stored, estimate, progress)
        return run_interruptible(_train(prepared, spec, stored, estimate, progress), prepared.resume_command("train"))


def _require_launch(prepared: Prepared, held: ExitStack) -> None:
    """What a launch on verl needs of its machine and its cluster; GPUs of this machine are kept until ``held`` is closed."""
    settings_of(prepared.run)
    if prepared.resumed:
        # It still has the GPUs; where its launcher lives, the run is held.
        with hold(prepared):
            asyncio.run(end_left_over(prepared.folder / FOLDER))
    require_launchable(prepared)
    if prepared.run.cluster is not None:
        held.enter_context(claimed_gpus(prepared.run.cluster))
    require_ray(prepared.run)
    require_model_files(prepared)


def _on_verl(prepared: Prepared, spec: TrainSpec, stored: Stored, estimate: Estimate | None, progress: Progress) -> Finished:
    resume = prepared.resume_command("train")
    if isinstance(spec.algorithm, SftSpec):
        from agentgym_cli.verbs.imitation import imitate_on_cluster

        return run_interruptible(imitate_on_cluster(prepared, spec, stored, estimate, progress), resume)
    from agentgym_cli.verbs.cluster import train_on_cluster

    return run_interruptible(train_on_cluster(prepared, spec, estimate, progress), resume)


def load_engine(prepared: Prepared) -> LocalEngine:
    """The local engine of a run; the door through which torch is loaded. Raises PolicyError."""
    from agentgym_cli.verbs.local import LocalEngine

    tokens = turn_tokens(prepared.run, beside=prepared.frozen.beside)
    return LocalEngine(prepared.run, model_folder=prepared.model_folder, tokens=tokens, system_prompt=prepared.system_prompt)


def load_comparison() -> Weigh:
    """What compares the local engine's sampler and trainer; the same door."""
    from agentgym_cli.verbs.logprobs import weigh

    return weigh


def load_exporter() -> Exporter:
    """What writes a checkpoint as a model folder; the same door."""
    from agentgym_cli.verbs.export import export_model

    return export_model


def _trainable(prepared: Prepared) -> TrainSpec:
    run = prepared.run
    if run.train is None or not (prepared.train_tasks or not plays_training_tasks(run)):
        raise RecipeError(f"{run.name}: expected sections train and tasks.train, got a recipe that only evaluates", "agentgym eval RECIPE")
    require_engine(run.engine.kind)
    return run.train


async def _train(prepared: Prepared, spec: TrainSpec, stored: Stored, estimate: Estimate | None, progress: Progress) -> Finished:
    found = last_checkpoint(prepared.folder) if prepared.resumed else None
    resumed_from = None if not prepared.resumed else -1 if found is None else found.step
    with open_segment(prepared, verb="train", policy="local", resumed_from_step=resumed_from, progress=progress) as (recorder, history):
        if found is not None and found.step == spec.steps and not left_to_evaluate(prepared, spec, history):
            progress.note("resume", f"nothing is left to do: all {spec.steps} steps and the evaluation behind them are recorded")
            infra = infra_share(prepared.run, history)
        else:
            keep_estimate(recorder, estimate)
            infra = await _in_world(prepared, spec, stored, found, recorder, history, progress)
            keep_peak(recorder)
    return Finished(prepared=prepared, degraded=infra.sentence(), store_trouble=recorder.store_trouble)


def left_to_evaluate(prepared: Prepared, spec: TrainSpec, history: History) -> bool:
    """Whether an episode of the last evaluation has no outcome yet."""
    wanted = prepared.run.evaluation
    schedule = evaluation_schedule(
        prepared.evaluation_tasks, phase="eval_after", step=spec.steps, samples=wanted.samples_per_task, horizon=wanted.horizon, limit=wanted.limit
    )
    return any(episode.id not in history.outcomes for episode in schedule)


async def _in_world(
    prepared: Prepared, spec: TrainSpec, stored: Stored, found: Checkpoint | None, recorder: Recorder, history: History, progress: Progress
) -> InfraShare:
    """Open the environment and do what is left; returns the failures counted."""
    run = prepared.run
    tasks = [*prepared.train_tasks, *(task for split in prepared.evaluation_tasks.values() for task in split)]
    oracle = asks_oracle(run)
    async with open_world(
        run.env, prepared.dialect, run.budgets, run.retry, tasks, slots=run.engine.slots, oracle=oracle, recorder=recorder, progress=progress
    ) as world:
        keep_observed(prepared, world.observed)
        stage = stage_of(run, prepared.dialect, world.client, tasks, recorder, history, progress)
        await _phases(prepared, spec, stored, stage, found)
    return stage.infra


async def _phases(prepared: Prepared, spec: TrainSpec, stored: Stored, stage: Stage, found: Checkpoint | None) -> None:
    """What is left to do after checkpoint ``found``, in order."""
    from agentgym_cli.verbs.learning import learning_of
    from agentgym_cli.verbs.local import evaluate, warm_start

    run, splits = prepared.run, prepared.evaluation_tasks
    engine = load_engine(prepared)
    stage.progress.note("model", f"{engine.parameters:,} parameters from {run.policy.own_model.path}")
    if found is None and run.warm_start is not None:
        await warm_start(engine, run.warm_start, prepared.train_tasks, stage)
    done = 0 if found is None else found.step
    learning = await learning_of(prepared, spec, stored, engine, stage, fresh=found is None)
    learning.begin(found)
    if found is not None:
        stage.progress.note("resume", f"after step {found.step} of {spec.steps}, from {found.folder.name}")
    if done == 0:
        await evaluate(engine, splits, stage, phase="eval_before", step=0)
    if done < spec.steps:
        await learning.go_on(done)
    await evaluate(engine, splits, stage, phase="eval_after", step=spec.steps)
