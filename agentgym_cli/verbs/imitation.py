"""``agentgym train`` of algorithm sft on verl: demonstrations gathered as on the local engine, written down, learned in one launch, watched."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agentgym_cli.errors import AgentgymError, StoreError, TrainerError
from agentgym_cli.learn.verl.launch import Program, Watch, host_bytes, run_verl
from agentgym_cli.learn.verl.merge import merge
from agentgym_cli.learn.verl.sft.rows import Lesson, lesson_of, write_lesson
from agentgym_cli.learn.verl.sft.settings import sft_settings
from agentgym_cli.learn.verl.sft.setup import SETUP_FILE, SftSetup, launcher_words
from agentgym_cli.recipe.resolve import fullest_gpu_bytes
from agentgym_cli.recipe.schema.algorithms import SftSpec
from agentgym_cli.recipe.schema.computing import ClusterSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.stored_rules import asks_oracle
from agentgym_cli.store.desk import Address, open_desk
from agentgym_cli.verbs.cluster_metrics import sft_metrics
from agentgym_cli.verbs.degraded import InfraShare
from agentgym_cli.verbs.estimate import Estimate
from agentgym_cli.verbs.folders import short
from agentgym_cli.verbs.gathering import Gathering
from agentgym_cli.verbs.history import History
from agentgym_cli.verbs.home import keep_observed
from agentgym_cli.verbs.play import Stage, infra_share, stage_of
from agentgym_cli.verbs.preflight import keep_estimate, keep_peak
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder, loading
from agentgym_cli.verbs.rehearsal import model_folder, rehearsal_model
from agentgym_cli.verbs.segment import Finished, open_segment
from agentgym_cli.verbs.served import evaluate_served
from agentgym_cli.verbs.served_checks import ServedModel
from agentgym_cli.verbs.stored import Stored
from agentgym_cli.verbs.train import left_to_evaluate
from agentgym_cli.verbs.turns import turn_tokens
from agentgym_cli.verbs.verl_checkpoints import VerlCheckpoint, forget_verl_checkpoints, last_verl_checkpoint
from agentgym_cli.verbs.verl_checks import require_same_ranks
from agentgym_cli.verbs.verl_place import FOLDER, rehearses, sft_launch_of, variables_of, words_of
from agentgym_cli.verbs.world import open_world

MEMORY_HINT = "lower data.max_token_len_per_gpu or budgets.context_tokens, or more GPUs; agentgym capacity RECIPE shows what is needed"


async def imitate_on_cluster(prepared: Prepared, spec: TrainSpec, stored: Stored, estimate: Estimate | None, progress: Progress) -> Finished:
    """One segment of a run that learns demonstrations on verl, from its last checkpoint or from the start."""
    cluster = prepared.run.cluster
    assert cluster is not None, "engine verl has a section cluster"
    found = last_verl_checkpoint(prepared.folder / FOLDER, digest=prepared.frozen.digest) if prepared.resumed else None
    resumed_from = None if not prepared.resumed else -1 if found is None else found.step
    if found is not None:
        require_same_ranks(cluster, found.ranks)
    with open_segment(prepared, verb="train", policy="verl", resumed_from_step=resumed_from, progress=progress) as (recorder, history):
        if found is not None and found.step == spec.steps and not left_to_evaluate(prepared, spec, history):
            progress.note("resume", f"nothing is left to do: all {spec.steps} steps and the evaluation behind them are recorded")
            infra = infra_share(prepared.run, history)
        else:
            keep_estimate(recorder, estimate)
            infra = await _in_world(prepared, spec, stored, found, recorder, history, progress)
    return Finished(prepared=prepared, degraded=infra.sentence(), store_trouble=recorder.store_trouble)


async def _in_world(
    prepared: Prepared, spec: TrainSpec, stored: Stored, found: VerlCheckpoint | None, recorder: Recorder, history: History, progress: Progress
) -> InfraShare:
    run = prepared.run
    tasks = [*prepared.train_tasks, *(task for split in prepared.evaluation_tasks.values() for task in split)]
    async with open_world(
        run.env,
        prepared.dialect,
        run.budgets,
        run.retry,
        tasks,
        slots=run.engine.slots,
        oracle=asks_oracle(run),
        recorder=recorder,
        progress=progress,
    ) as world:
        keep_observed(prepared, world.observed)
        stage = stage_of(run, prepared.dialect, world.client, tasks, recorder, history, progress)
        await _phases(prepared, spec, stored, stage, found)
    return stage.infra


async def _phases(prepared: Prepared, spec: TrainSpec, stored: Stored, stage: Stage, found: VerlCheckpoint | None) -> None:
    """What is left to do after checkpoint ``found``, in order: the local engine's order."""
    folder, splits = prepared.folder.absolute() / FOLDER, prepared.evaluation_tasks
    folder.mkdir(exist_ok=True)
    model = Path(model_folder(prepared, folder))
    if rehearses(prepared.run):
        tokenizer = rehearsal_model(prepared, model, kept=found is not None, progress=stage.progress)
    else:
        tokenizer = prepared.tokenizer_folder
    done = 0 if found is None else found.step
    if done < spec.steps:
        lesson = await _lesson(prepared, spec, stored, stage, tokenizer, fresh=found is None)
        if done == 0:
            await evaluate_served(prepared, ServedModel(folder=model, tokenizer=tokenizer, step=0), splits, stage, phase="eval_before")
        await Learning(prepared, spec, found, lesson, stage.recorder, stage.progress).launch(model)
    if left_to_evaluate(prepared, spec, stage.history):
        async with _merged(prepared, stage) as merged:
            await evaluate_served(prepared, ServedModel(folder=merged, tokenizer=tokenizer, step=spec.steps), splits, stage, phase="eval_after")


@asynccontextmanager
async def _merged(prepared: Prepared, stage: Stage) -> AsyncIterator[Path]:
    """The last checkpoint as a model folder, for as long as the block runs; ``agentgym export`` makes one that stays."""
    folder = prepared.folder.absolute() / FOLDER
    last = last_verl_checkpoint(folder, digest=prepared.frozen.digest)
    assert last is not None, "a launch is over once its last checkpoint is there"
    place = folder / "merged"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    stage.progress.note("model", f"the checkpoint of step {last.step} is merged, to be evaluated")
    try:
        await asyncio.to_thread(merge, last.shards, place, variables=variables_of(prepared.run))
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def _lesson(prepared: Prepared, spec: TrainSpec, stored: Stored, stage: Stage, tokenizer: Path, *, fresh: bool) -> Lesson:
    run = prepared.run
    assert isinstance(spec.algorithm, SftSpec), "nothing else is learned here"
    gathering = Gathering(
        run=run,
        tokens=turn_tokens(run, beside=prepared.frozen.beside, folder=tokenizer),
        system_prompt=prepared.system_prompt,
        stage=stage,
        stored=stored,
        tasks=prepared.train_tasks,
        fresh=fresh,
    )
    return lesson_of(await gathering.demonstrations(spec.algorithm), steps=spec.steps, count=spec.tasks_per_step, seed=run.seed)


class Learning:
    """One launch of verl's supervised trainer: what goes in, what comes back, and what that means for the run."""

    def __init__(
        self, prepared: Prepared, spec: TrainSpec, found: VerlCheckpoint | None, lesson: Lesson, recorder: Recorder, progress: Progress
    ) -> None:
        self._prepared, self._spec, self._found, self._lesson = prepared, spec, found, lesson
        self._recorder, self._progress = recorder, progress
        self._folder = prepared.folder.absolute() / FOLDER
        self._done = 0 if found is None else found.step
        self.watch = Watch(now=asyncio.get_running_loop().time())

    async def launch(self, model: Path) -> None:
        """Write everything down, run verl to its end. Raises TrainerError where that is not the end that was planned."""
        async with open_desk(self.take, broken=self._broken) as desk, loading(self._recorder):
            await self._run(str(model), desk)
        last = last_verl_checkpoint(self._folder, digest=self._prepared.frozen.digest)
        kept, steps = 0 if last is None else last.step, self._spec.steps
        if self._done != steps or kept != steps:
            raise TrainerError(
                f"verl: expected {steps} steps and the last one's checkpoint, got {self._done} steps and a checkpoint of step {kept}",
                f"see {self._folder}",
            )

    async def _run(self, model: str, desk: Address) -> None:
        run, folder, segment = self._prepared.run, self._folder, self._recorder.segment
        launch = sft_launch_of(name=self._prepared.name, model=model, folder=folder, resume_from=None if self._found is None else self._found.folder)
        write_lesson(self._lesson, demonstrations=Path(launch.demonstrations), updates=Path(launch.updates))
        SftSetup(digest=self._prepared.frozen.digest, desk=desk).write(folder / SETUP_FILE)
        words = words_of(run, sft_settings(run, launch))
        (folder / f"command-{segment}.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        log = folder / f"verl-{segment}.log"
        self._progress.note("verl", f"starts its supervised trainer; what it says: {short(log)}")
        self._progress.begin("train", self._spec.steps, "step", done=self._done)
        try:
            await run_verl(
                words,
                folder=folder,
                variables=variables_of(run),
                log=log,
                watch=self.watch,
                weigh=self._weigh,
                program=Program(words=launcher_words(_cluster(run.cluster).gpus), memory=MEMORY_HINT),
            )
        finally:
            self._progress.end()
            if self.watch.peak_bytes:
                keep_peak(self._recorder, self.watch.peak_bytes)

    def _weigh(self, mark: str) -> int:
        """As the estimate is made: of the fullest GPU; in a rehearsal, of all processes."""
        return host_bytes(mark) if rehearses(self._prepared.run) else fullest_gpu_bytes()

    def take(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What the trainer hands in; see ``ToldSftTrainer``."""
        handlers = {"mark": self._mark, "metrics": self._metrics, "times": self._times, "checkpoint": self._checkpoint}
        handlers[message["do"]](message)
        return {}

    def _mark(self, message: Mapping[str, Any]) -> None:
        self.watch.mark(str(message["phase"]), int(message["step"]), asyncio.get_running_loop().time())

    def _metrics(self, message: Mapping[str, Any]) -> None:
        step, values = int(message["step"]), message["values"]
        count, tokens = self._spec.tasks_per_step, self._lesson.action_tokens(step)
        if (values["demonstrations"], values["action_tokens"]) != (count, tokens):
            self._end(
                TrainerError(
                    f"train step {step}: expected an update on {count} demonstrations with {tokens} action tokens, "
                    f"got {values['demonstrations']:g} with {values['action_tokens']:g}",
                    f"see {self._folder}",
                )
            )
        if values["loss"] is None or values["grad_norm"] is None:
            self._end(TrainerError(f"train step {step}: expected a finite loss and gradient, got one that is not", "lower the learning rate"))
        own = {
            "policy_version": float(step - 1),
            "passes": step * count / len(self._lesson.shown),
            "without_action_tokens": float(self._lesson.without_action_tokens(step)),
        }
        self._recorder.metrics("train", step, {**own, **sft_metrics(values)})
        self._done = step
        self._progress.advance(step, {"loss": values["loss"]})

    def _times(self, message: Mapping[str, Any]) -> None:
        self._recorder.metrics("train", int(message["step"]), sft_metrics(message["values"]))

    def _checkpoint(self, message: Mapping[str, Any]) -> None:
        path = Path(str(message["path"])).relative_to(self._prepared.folder.absolute())
        self._recorder.sync()
        self._recorder.checkpoint(int(message["step"]), str(path), self._prepared.frozen.digest)
        if self._spec.keep_checkpoints is not None:
            forget_verl_checkpoints(self._folder, digest=self._prepared.frozen.digest, keep=self._spec.keep_checkpoints)

    def _broken(self, trouble: StoreError) -> None:
        self._end(trouble)

    def _end(self, why: AgentgymError) -> None:
        """Have the launch ended; the first reason counts."""
        self.watch.stop = self.watch.stop or why


def _cluster(cluster: ClusterSpec | None) -> ClusterSpec:
    assert cluster is not None, "engine verl has a section cluster"
    return cluster
