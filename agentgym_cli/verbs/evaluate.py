"""``agentgym eval``: the same loop without learning, for a policy with or without a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym_cli.episode.policies.build import BASELINES, build_baseline
from agentgym_cli.episode.policies.endpoint_check import Qualified
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.episode.policies.scripted import read_script
from agentgym_cli.errors import PolicyError, RecipeError, StoreError
from agentgym_cli.recipe.lock import require_engine
from agentgym_cli.recipe.wording import shown
from agentgym_cli.verbs.endpoint import check_endpoint, endpoint_of, moved, open_endpoint, with_endpoint
from agentgym_cli.verbs.folders import FROZEN_FILE, WEIGHTS_FILE, Checkpoint, find_checkpoint
from agentgym_cli.verbs.gpu_use import claimed_gpus
from agentgym_cli.verbs.home import claim_folder, keep_observed
from agentgym_cli.verbs.interrupts import run_interruptible
from agentgym_cli.verbs.play import Stage, stage_of
from agentgym_cli.verbs.prepare import Prepared, prepare
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.request import PolicyChoice, Request
from agentgym_cli.verbs.schedules import evaluation_schedule
from agentgym_cli.verbs.segment import Finished, open_segment
from agentgym_cli.verbs.served import evaluate_served
from agentgym_cli.verbs.served_checks import ServedModel
from agentgym_cli.verbs.served_model import find_served, refuse_verl
from agentgym_cli.verbs.train import load_engine
from agentgym_cli.verbs.world import open_world

CHOICE_FILE = "policy.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acting:
    """Who acts in an evaluation, found and checked."""

    choice: PolicyChoice
    """Its kind is known."""
    label: str
    """What acts, pinned by content: the run's record keeps it, and a resume with another one is refused."""
    checkpoint: Checkpoint | None = None
    served: ServedModel | None = None
    endpoint: Qualified | None = None

    @property
    def folder(self) -> Path | None:
        """Where the weights are that a resume takes; None where the recipe says so, or there are none."""
        if self.served is not None:
            return self.served.folder if self.choice.checkpoint is not None else None
        return None if self.checkpoint is None else self.checkpoint.folder


def evaluate_policy(request: Request, progress: Progress) -> Finished:
    """Evaluate as the recipe says, or go on with an evaluation, which keeps its policy.

    Raises:
        AgentgymError: what stopped it, with its exit code; everything recorded up to there is kept.
    """
    request = with_endpoint(request)
    assert request.policy is not None
    choice = _remembered(Path(request.target), request.policy) if request.resume else _named(request.policy)
    _require_kind(choice)
    prepared = moved(prepare(request, verb="eval", progress=progress), request.policy)
    acting = _acting(prepared, replace(choice, kind=choice.kind or prepared.run.evaluation.policy), progress)
    progress.note("policy", acting.label)
    prepared = claim_folder(prepared, progress)
    cluster = prepared.run.cluster if acting.served is not None else None
    with nullcontext() if cluster is None else claimed_gpus(cluster):
        return run_interruptible(_evaluate(prepared, acting, progress), prepared.resume_command("eval"))


def _named(choice: PolicyChoice) -> PolicyChoice:
    """The choice; a checkpoint, a script or an endpoint that is named needs no ``--policy`` beside it."""
    named = {"checkpoint": choice.checkpoint, "scripted": choice.script, "endpoint": choice.endpoint}
    if choice.kind is None:
        return replace(choice, kind=next((kind for kind, place in named.items() if place is not None), None))
    return choice


def _require_kind(choice: PolicyChoice) -> None:
    """Raise PolicyError for a policy that there is not, RecipeError for a script that cannot be read."""
    if choice.kind == "scripted" and choice.script is not None:
        read_script(choice.script)
    if choice.kind not in (None, *BASELINES, "checkpoint", "endpoint"):
        raise PolicyError(f"--policy: expected one of {', '.join(BASELINES)}, checkpoint, endpoint, got {choice.kind!r}")


def _acting(prepared: Prepared, choice: PolicyChoice, progress: Progress) -> _Acting:
    if choice.kind == "endpoint":
        qualified = check_endpoint(prepared, progress)
        label = f"endpoint, {endpoint_of(prepared).api}: {qualified.word}"
        return _Acting(choice=choice, label=label, endpoint=qualified)
    if choice.kind == "checkpoint":
        return _with_weights(prepared, choice, progress)
    assert choice.kind is not None
    script = choice.script
    return _Acting(choice=choice, label=f"scripted, script {_sha256(script)}" if script is not None else choice.kind)


def _with_weights(prepared: Prepared, choice: PolicyChoice, progress: Progress) -> _Acting:
    """A checkpoint, or on engine verl a model folder, the recipe's own where none is named."""
    if prepared.run.engine.kind == "verl":
        served, label = find_served(prepared, choice.checkpoint, progress)
        return _Acting(choice=choice, label=label, served=served)
    if choice.checkpoint is None:
        raise PolicyError("--policy checkpoint: expected --checkpoint, got none", "agentgym eval RECIPE --checkpoint runs/NAME")
    require_engine("local")
    refuse_verl(choice.checkpoint)
    checkpoint = find_checkpoint(choice.checkpoint)
    label = f"checkpoint of step {checkpoint.step}, weights {_sha256(checkpoint.folder / WEIGHTS_FILE)}"
    return _Acting(choice=choice, label=label, checkpoint=checkpoint)


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as err:
        raise PolicyError(f"{path}: expected a readable file, got: {err.strerror or err}") from err


async def _evaluate(prepared: Prepared, acting: _Acting, progress: Progress) -> Finished:
    run, splits = prepared.run, prepared.evaluation_tasks
    tasks = [task for split in splits.values() for task in split]
    resumed = 0 if prepared.resumed else None
    if not prepared.resumed:
        # Before the journal's first line: what has a journal can be resumed.
        _remember(prepared.folder, acting)
    with open_segment(prepared, verb="eval", policy=acting.label, resumed_from_step=resumed, progress=progress) as (recorder, history):
        if not (prepared.folder / CHOICE_FILE).exists():
            _remember(prepared.folder, acting)
        oracle = acting.choice.kind == "oracle"
        async with open_world(
            run.env, prepared.dialect, run.budgets, run.retry, tasks, slots=run.engine.slots, oracle=oracle, recorder=recorder, progress=progress
        ) as world:
            keep_observed(prepared, {**world.observed, **_observed(prepared, acting)})
            stage = stage_of(run, prepared.dialect, world.client, tasks, recorder, history, progress)
            if acting.served is not None:
                await evaluate_served(prepared, acting.served, splits, stage, phase="eval")
            else:
                await _play(prepared, acting, stage)
    return Finished(prepared=prepared, degraded=stage.infra.sentence(), store_trouble=recorder.store_trouble)


async def _play(prepared: Prepared, acting: _Acting, stage: Stage) -> None:
    spec, step = prepared.run.evaluation, 0 if acting.checkpoint is None else acting.checkpoint.step
    schedule = evaluation_schedule(
        prepared.evaluation_tasks, phase="eval", step=step, samples=spec.samples_per_task, horizon=spec.horizon, limit=spec.limit
    )
    async with _policy(prepared, acting, stage.recorder, stage.progress) as policy:
        await stage.play(schedule, policy, announce="evaluate")


def _observed(prepared: Prepared, acting: _Acting) -> dict[str, str]:
    """What a server of models said it is, beside what the environment's said."""
    return {} if acting.endpoint is None else {f"{endpoint_of(prepared).url} (policy)": acting.endpoint.word}


@asynccontextmanager
async def _policy(prepared: Prepared, acting: _Acting, recorder: Recorder, progress: Progress) -> AsyncIterator[Policy]:
    run = prepared.run
    if acting.endpoint is not None:
        async with open_endpoint(prepared, acting.endpoint, recorder, progress) as endpoint:
            yield endpoint
    elif acting.checkpoint is not None:
        engine = load_engine(prepared)
        engine.take_weights(acting.checkpoint.folder, acting.checkpoint.step)
        yield engine.policy(run.evaluation.temperature)
    else:
        assert acting.choice.kind is not None
        rules, form = prepared.dialect.rules(), run.prompt.action_format
        yield build_baseline(acting.choice.kind, rules=rules, action_format=form, budgets=run.budgets, script=acting.choice.script)


def _remember(folder: Path, acting: _Acting) -> None:
    """Keep the choice beside the frozen run, wholly or not at all, so that a resume plays the same policy."""
    choice, weights = acting.choice, acting.folder
    said = {
        "kind": choice.kind,
        "checkpoint": str(weights.resolve()) if weights else None,
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
    """The policy of an evaluation that is resumed; the one that is asked for where what keeps it is gone: the run's own record judges it later.

    Raises:
        RecipeError: another one is asked for although it is kept, or none is and it is not.
    """
    path, named = folder / CHOICE_FILE, replace(asked, endpoint=None, model=None) != PolicyChoice()
    if not (folder / FROZEN_FILE).is_file() or (not path.exists() and (named or asked.endpoint is not None)):
        return _named(asked)
    if named:
        raise RecipeError(
            f"{folder}: expected no --policy, --checkpoint or --script, a resumed evaluation keeps its own", f"agentgym eval {folder} --resume"
        )
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        places = {name: Path(said[name]) if said[name] else None for name in ("checkpoint", "script")}
        return PolicyChoice(kind=str(said["kind"]), checkpoint=places["checkpoint"], script=places["script"])
    except FileNotFoundError as err:
        hint = f"if it was deleted, name the policy again: agentgym eval {folder} --resume --policy NAME (or --checkpoint, --script, --endpoint)"
        raise RecipeError(f"{folder}: expected the folder of an evaluation, with {CHOICE_FILE} in it, which says who acts, got none", hint) from err
    except (OSError, ValueError, KeyError, TypeError) as err:
        hint = f"move it away and name the policy again: agentgym eval {folder} --resume --policy NAME"
        raise RecipeError(f"{path}: expected an object of kind, checkpoint and script, got {type(err).__name__}: {shown(str(err))}", hint) from err
