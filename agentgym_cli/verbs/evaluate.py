"""``agentgym eval``: the same loop without learning, for a policy with or without a model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from agentgym_cli.episode.policies.build import BASELINES, build_baseline
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.episode.policies.scripted import read_script
from agentgym_cli.errors import PolicyError, RecipeError, StoreError
from agentgym_cli.recipe.lock import require_engine
from agentgym_cli.verbs.folders import WEIGHTS_FILE, Checkpoint, find_checkpoint
from agentgym_cli.verbs.home import claim_folder, keep_observed
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.play import stage_of
from agentgym_cli.verbs.prepare import Prepared, prepare
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.request import PolicyChoice, Request
from agentgym_cli.verbs.schedules import evaluation_schedule
from agentgym_cli.verbs.segment import Finished, open_segment
from agentgym_cli.verbs.train import load_engine
from agentgym_cli.verbs.world import open_world

CHOICE_FILE = "policy.json"


def evaluate_policy(request: Request, progress: Progress) -> Finished:
    """Evaluate as the recipe says, or go on with an evaluation, which keeps its policy.

    Raises:
        AgentgymError: what stopped it, with its exit code; everything recorded up to there is kept.
    """
    assert request.policy is not None
    choice = _remembered(Path(request.target), request.policy) if request.resume else _named(request.policy)
    checkpoint = None if choice.kind is None else _checkpoint(choice)
    prepared = prepare(request, verb="eval", progress=progress)
    if choice.kind is None:
        choice = replace(choice, kind=prepared.run.evaluation.policy)
        checkpoint = _checkpoint(choice)
    label = _label(choice, checkpoint)
    progress.note("policy", label)
    prepared = claim_folder(prepared, progress)
    return run_interruptible(_evaluate(prepared, choice, checkpoint, label, progress), prepared.resume_command("eval"))


def _named(choice: PolicyChoice) -> PolicyChoice:
    """The choice; a checkpoint that is named needs no ``--policy checkpoint``, and a script no ``--policy scripted``."""
    if choice.kind is None and (choice.checkpoint or choice.script) is not None:
        return replace(choice, kind="checkpoint" if choice.checkpoint is not None else "scripted")
    return choice


def _checkpoint(choice: PolicyChoice) -> Checkpoint | None:
    if choice.kind == "scripted" and choice.script is not None:
        read_script(choice.script)
    if choice.kind in BASELINES:
        return None
    if choice.kind != "checkpoint":
        raise PolicyError(f"--policy: expected one of {', '.join(BASELINES)}, checkpoint, got {choice.kind!r}")
    if choice.checkpoint is None:
        raise PolicyError("--policy checkpoint: expected --checkpoint, got none", "agentgym eval RECIPE --checkpoint runs/NAME")
    require_engine("local")
    return find_checkpoint(choice.checkpoint)


def _label(choice: PolicyChoice, checkpoint: Checkpoint | None) -> str:
    """What acts, pinned by content: the run's record keeps it, and a resume with another one is refused."""
    if checkpoint is not None:
        return f"checkpoint of step {checkpoint.step}, weights {_sha256(checkpoint.folder / WEIGHTS_FILE)}"
    assert choice.kind is not None
    return f"scripted, script {_sha256(choice.script)}" if choice.script is not None else choice.kind


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as err:
        raise PolicyError(f"{path}: expected a readable file, got: {err.strerror or err}") from err


async def _evaluate(prepared: Prepared, choice: PolicyChoice, checkpoint: Checkpoint | None, label: str, progress: Progress) -> Finished:
    run, spec, splits = prepared.run, prepared.run.evaluation, prepared.evaluation_tasks
    step = 0 if checkpoint is None else checkpoint.step
    tasks = [task for split in splits.values() for task in split]
    resumed = 0 if prepared.resumed else None
    with open_segment(prepared, verb="eval", policy=label, resumed_from_step=resumed, progress=progress) as (recorder, history):
        if not prepared.resumed:
            _remember(prepared.folder, choice, checkpoint)
        oracle = choice.kind == "oracle"
        async with open_world(
            run.env, prepared.dialect, run.budgets, run.retry, tasks, slots=run.engine.slots, oracle=oracle, recorder=recorder, progress=progress
        ) as world:
            keep_observed(prepared, world.observed)
            stage = stage_of(run, prepared.dialect, world.client, tasks, recorder, history, progress)
            policy = _policy(prepared, choice, checkpoint)
            schedule = evaluation_schedule(splits, phase="eval", step=step, samples=spec.samples_per_task, horizon=spec.horizon, limit=spec.limit)
            await stage.play(schedule, policy, announce="evaluate")
    return Finished(prepared=prepared, degraded=stage.infra.sentence(), store_trouble=recorder.store_trouble)


def _policy(prepared: Prepared, choice: PolicyChoice, checkpoint: Checkpoint | None) -> Policy:
    run = prepared.run
    if checkpoint is None:
        assert choice.kind is not None
        rules = prepared.dialect.rules()
        form = run.prompt.action_format
        return build_baseline(choice.kind, rules=rules, action_format=form, budgets=run.budgets, script=choice.script)
    engine = load_engine(prepared)
    engine.take_weights(checkpoint.folder, checkpoint.step)
    return engine.policy(run.evaluation.temperature)


def _remember(folder: Path, choice: PolicyChoice, checkpoint: Checkpoint | None) -> None:
    """Keep the choice beside the frozen run, wholly or not at all, so that a resume plays the same policy."""
    said = {
        "kind": choice.kind,
        "checkpoint": str(checkpoint.folder.resolve()) if checkpoint else None,
        "script": str(choice.script.resolve()) if choice.script else None,
    }
    path = folder / CHOICE_FILE
    try:
        aside = path.with_suffix(".new")
        aside.write_text(json.dumps(said, sort_keys=True) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as err:
        raise StoreError(f"{path}: cannot write it: {err.strerror or err}", "free some space and run it again") from err


def _remembered(folder: Path, asked: PolicyChoice) -> PolicyChoice:
    """The policy of an evaluation that is resumed. Raises RecipeError when another one is asked for with it."""
    if asked != PolicyChoice():
        raise RecipeError(
            f"{folder}: expected no --policy, --checkpoint or --script, a resumed evaluation keeps its own", f"agentgym eval {folder} --resume"
        )
    path = folder / CHOICE_FILE
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        places = {name: Path(said[name]) if said[name] else None for name in ("checkpoint", "script")}
        return PolicyChoice(kind=str(said["kind"]), checkpoint=places["checkpoint"], script=places["script"])
    except (OSError, ValueError, KeyError, TypeError) as err:
        problem = RecipeError(f"{folder}: expected the folder of an evaluation, with {CHOICE_FILE} in it", "agentgym eval RECIPE starts a new one")
        raise problem from err
