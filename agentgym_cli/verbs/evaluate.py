"""``agentgym eval``: the same loop without learning, for a policy with or without a model."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym_cli.episode.policies.build import BASELINES, build_baseline
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.errors import PolicyError, RecipeError, StoreError
from agentgym_cli.recipe.lock import require_engine
from agentgym_cli.verbs.degraded import InfraShare
from agentgym_cli.verbs.folders import Checkpoint, find_checkpoint
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
    """Evaluate as the recipe says, or go on with an evaluation.

    Raises:
        AgentgymError: what stopped it, with its exit code; everything recorded up to there is kept.
    """
    assert request.policy is not None
    choice = _remembered(Path(request.target)) if request.resume else request.policy
    checkpoint = _checkpoint(choice)
    prepared = prepare(request, verb="eval", progress=progress)
    progress.note("policy", choice.kind if checkpoint is None else f"checkpoint {checkpoint.folder} (step {checkpoint.step})")
    return run_interruptible(_evaluate(prepared, choice, checkpoint, progress), f"agentgym eval {prepared.folder} --resume")


def _checkpoint(choice: PolicyChoice) -> Checkpoint | None:
    if choice.kind in BASELINES:
        return None
    if choice.kind != "checkpoint":
        raise PolicyError(f"--policy: expected one of {', '.join(BASELINES)}, checkpoint, got {choice.kind!r}")
    if choice.checkpoint is None:
        raise PolicyError("--policy checkpoint: expected --checkpoint, got none", "agentgym eval RECIPE --checkpoint runs/NAME")
    require_engine("local")
    return find_checkpoint(choice.checkpoint)


async def _evaluate(prepared: Prepared, choice: PolicyChoice, checkpoint: Checkpoint | None, progress: Progress) -> Finished:
    run, spec, splits = prepared.run, prepared.run.evaluation, prepared.evaluation_tasks
    step = 0 if checkpoint is None else checkpoint.step
    tasks = [task for split in splits.values() for task in split[: spec.limit]]
    infra = InfraShare(run.env.max_infra_share)
    resumed = 0 if prepared.resumed else None
    with open_segment(prepared, verb="eval", policy=_label(choice, checkpoint), resumed_from_step=resumed, progress=progress) as (recorder, history):
        _remember(prepared.folder, choice)
        oracle = choice.kind == "oracle"
        async with open_world(run.env, prepared.dialect, run.budgets, tasks, oracle=oracle, recorder=recorder, progress=progress) as world:
            stage = stage_of(run, prepared.dialect, world.client, recorder, history, progress)
            policy = _policy(prepared, choice, checkpoint)
            schedule = evaluation_schedule(splits, phase="eval", step=step, samples=spec.samples_per_task, horizon=spec.horizon, limit=spec.limit)
            _, tally = await stage.play(schedule, policy, announce="evaluate")
            infra.add("eval", tally)
    return Finished(prepared=prepared, degraded=infra.sentence())


def _policy(prepared: Prepared, choice: PolicyChoice, checkpoint: Checkpoint | None) -> Policy:
    run = prepared.run
    if checkpoint is None:
        rules = prepared.dialect.rules()
        form = run.prompt.action_format
        return build_baseline(choice.kind, rules=rules, action_format=form, budgets=run.budgets, script=choice.script)
    engine = load_engine(prepared)
    engine.take_weights(checkpoint.folder, checkpoint.step)
    return engine.policy(run.evaluation.temperature)


def _label(choice: PolicyChoice, checkpoint: Checkpoint | None) -> str:
    """How the run's record calls the policy."""
    return choice.kind if checkpoint is None else f"checkpoint {checkpoint.folder}"


def _remember(folder: Path, choice: PolicyChoice) -> None:
    """Keep the choice beside the frozen run, so that a resume plays the same policy."""
    said = {
        "kind": choice.kind,
        "checkpoint": str(choice.checkpoint.resolve()) if choice.checkpoint else None,
        "script": str(choice.script.resolve()) if choice.script else None,
    }
    try:
        (folder / CHOICE_FILE).write_text(json.dumps(said, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as err:
        raise StoreError(f"{folder / CHOICE_FILE}: cannot write it: {err.strerror or err}", "free some space and run it again") from err


def _remembered(folder: Path) -> PolicyChoice:
    path = folder / CHOICE_FILE
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        places = {name: Path(said[name]) if said[name] else None for name in ("checkpoint", "script")}
        return PolicyChoice(kind=str(said["kind"]), checkpoint=places["checkpoint"], script=places["script"])
    except (OSError, ValueError, KeyError, TypeError) as err:
        problem = RecipeError(f"{folder}: expected the folder of an evaluation, with {CHOICE_FILE} in it", "agentgym eval RECIPE starts a new one")
        raise problem from err
