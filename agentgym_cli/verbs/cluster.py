"""``agentgym train`` on verl: everything cheap first, then one launch, watched, whose records come back through one writer."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_cli.episode.types import Outcome, ScheduledEpisode, Task
from agentgym_cli.errors import AgentgymError, Degraded, Interrupted, StoreError, TrainerError
from agentgym_cli.learn.schedules import horizon_at, stage_at, tasks_at
from agentgym_cli.learn.verl.asked import Launch
from agentgym_cli.learn.verl.launch import MARK, Watch, host_bytes, new_mark, run_verl, tested_bounds
from agentgym_cli.learn.verl.rows import TRAIN, evaluation_rows, training_rows, write_rows
from agentgym_cli.learn.verl.settings import arguments, settings
from agentgym_cli.learn.verl.setup import Setup, write_loops
from agentgym_cli.recipe.resolve import fullest_gpu_bytes
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.wording import listed
from agentgym_cli.store.codec import decode, encode
from agentgym_cli.store.desk import Address, open_desk
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord
from agentgym_cli.verbs.cluster_metrics import step_metrics
from agentgym_cli.verbs.degraded import InfraShare
from agentgym_cli.verbs.estimate import Estimate
from agentgym_cli.verbs.folders import short
from agentgym_cli.verbs.history import History
from agentgym_cli.verbs.home import keep_observed
from agentgym_cli.verbs.play import budget_of, infra_share
from agentgym_cli.verbs.preflight import keep_estimate, keep_peak
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.progress import Progress
from agentgym_cli.verbs.recorder import Recorder, loading
from agentgym_cli.verbs.rehearsal import model_folder, rehearsal_model
from agentgym_cli.verbs.schedules import evaluation_schedule, training_schedule
from agentgym_cli.verbs.segment import Finished, open_segment
from agentgym_cli.verbs.verl_checkpoints import VerlCheckpoint, forget_verl_checkpoints, last_verl_checkpoint
from agentgym_cli.verbs.verl_checks import desk_host, require_same_ranks
from agentgym_cli.verbs.verl_place import FOLDER, launch_of, rehearses
from agentgym_cli.verbs.world import open_world

SITE = "agentgym_cli.verbs.site:open_site"


async def train_on_cluster(prepared: Prepared, spec: TrainSpec, estimate: Estimate | None, progress: Progress) -> Finished:
    """One segment of a run on verl, from its last checkpoint or from the start."""
    found = last_verl_checkpoint(prepared.folder / FOLDER, digest=prepared.frozen.digest) if prepared.resumed else None
    resumed_from = None if not prepared.resumed else -1 if found is None else found.step
    if found is not None and prepared.run.cluster is not None:
        require_same_ranks(prepared.run.cluster, found.ranks)
    with open_segment(prepared, verb="train", policy="verl", resumed_from_step=resumed_from, progress=progress) as (recorder, history):
        work = Work(prepared, spec, found, recorder, history, progress)
        if found is not None and found.step == spec.steps and not work.left_to_evaluate():
            progress.note("resume", f"nothing is left to do: all {spec.steps} steps and the evaluation behind them are recorded")
        else:
            keep_estimate(recorder, estimate)
            await work.launch()
    return Finished(prepared=prepared, degraded=work.infra.sentence(), store_trouble=recorder.store_trouble)


class Work:
    """One launch: what goes in, what comes back, and what that means for the run."""

    def __init__(
        self, prepared: Prepared, spec: TrainSpec, found: VerlCheckpoint | None, recorder: Recorder, history: History, progress: Progress
    ) -> None:
        self._prepared, self._spec, self._found = prepared, spec, found
        self._recorder, self._history, self._progress = recorder, history, progress
        self._folder = prepared.folder.absolute() / FOLDER
        self._scheduled: set[str] = set(history.scheduled)
        self._over: set[str] = set(history.outcomes)
        self._induced: dict[str, bool] = {}
        self._causes: dict[str, str] = {}
        self._budget = budget_of(prepared.run, history.spent)
        self.watch = Watch(now=asyncio.get_running_loop().time(), recovery=prepared.run.retry.recovery_seconds, tested=tested_bounds())
        self._done = 0 if found is None else found.step
        self.infra: InfraShare = infra_share(prepared.run, history)

    def left_to_evaluate(self) -> dict[str, tuple[Task, ...]]:
        """Tasks by split of the evaluation that is due now, of which a sample has no outcome yet."""
        every = self._prepared.run.evaluation.every
        if 0 < self._done < self._spec.steps and (every is None or self._done % every):
            return {}
        wanted = {episode.task.id for episode in self._evaluation(self._phase(self._done), self._done) if episode.id not in self._over}
        left = {name: tuple(task for task in tasks if task.id in wanted) for name, tasks in self._limited().items()}
        return {name: tasks for name, tasks in left.items() if tasks}

    async def launch(self) -> None:
        """Serve the world, write everything down, run verl to its end."""
        run, prepared, cluster = self._prepared.run, self._prepared, self._prepared.run.cluster
        assert cluster is not None, "engine verl has a section cluster"
        tasks = [*prepared.train_tasks, *(task for split in prepared.evaluation_tasks.values() for task in split)]
        async with (
            open_world(
                run.env,
                prepared.dialect,
                run.budgets,
                run.retry,
                tasks,
                slots=run.engine.slots,
                oracle=False,
                recorder=self._recorder,
                progress=self._progress,
            ) as world,
            open_desk(self.take, host=desk_host(cluster), broken=self._broken) as desk,
            loading(self._recorder),
        ):
            keep_observed(prepared, world.observed)
            await self._run(world.urls, desk)

    async def _run(self, urls: Sequence[str], desk: Address) -> None:
        run, folder = self._prepared.run, self._folder
        folder.mkdir(exist_ok=True)
        left = self.left_to_evaluate()
        launch = launch_of(
            run,
            name=self._prepared.name,
            model=model_folder(self._prepared, folder),
            folder=folder,
            resume_from=None if self._found is None else self._found.folder,
            evaluate_first=bool(left),
            evaluate_only=self._done == self._spec.steps,
            # In the workers' own environment too: a Ray cluster that runs already was started without it.
            variables={MARK: new_mark()},
        )
        self._write_rows(launch, left)
        if rehearses(run):
            tokenizer = rehearsal_model(self._prepared, Path(launch.model), kept=self._found is not None, progress=self._progress)
        else:
            tokenizer = self._prepared.tokenizer_folder
        setup = folder / "setup.json"
        Setup(
            frozen=str(self._prepared.folder.absolute() / "frozen.json"),
            run=self._prepared.name,
            segment=self._recorder.segment,
            tokenizer=str(tokenizer),
            urls=tuple(urls),
            rows={TRAIN: launch.train_rows, "evaluation": launch.evaluation_rows},
            desk=desk,
            slots=run.engine.slots,
        ).write(setup)
        write_loops(Path(launch.loops), site=SITE, setup=setup)
        found = settings(run, launch)
        words = arguments(found)
        (folder / f"command-{self._recorder.segment}.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        log = folder / f"verl-{self._recorder.segment}.log"
        self._progress.note("verl", f"starts Ray and vLLM, which takes minutes; what they say: {short(log)}")
        self._progress.begin("train", self._spec.steps, "step", done=self._done)
        try:
            await run_verl(words, folder=folder, variables=launch.variables, log=log, watch=self.watch, weigh=self._weigh)
        finally:
            self._progress.end()
            if self.watch.peak_bytes:
                keep_peak(self._recorder, self.watch.peak_bytes)
                self._progress.note("memory", f"{self.watch.peak_bytes / 1024**2:,.0f} MiB at the most, {self._weighed()}")
        self._require_done()

    def _weigh(self, mark: str) -> int:
        """As the estimate is made: of the fullest GPU; in a rehearsal, of all processes."""
        return host_bytes(mark) if rehearses(self._prepared.run) else fullest_gpu_bytes()

    def _weighed(self) -> str:
        return "all processes together" if rehearses(self._prepared.run) else "on the fullest GPU of this machine"

    def _require_done(self) -> None:
        """verl says that it succeeded; whether it did what was planned is another question."""
        last = last_verl_checkpoint(self._folder, digest=self._prepared.frozen.digest)
        kept = 0 if last is None else last.step
        if self._done != self._spec.steps or kept != self._spec.steps:
            raise TrainerError(
                f"verl: expected {self._spec.steps} steps and the last one's checkpoint, got {self._done} steps and a checkpoint of step {kept}",
                f"see {self._folder}",
            )
        if left := sum(map(len, self.left_to_evaluate().values())):
            raise TrainerError(
                f"verl: expected an outcome of every episode of the last evaluation, got none for some of {left} tasks",
                f"see {self._folder}; {self._prepared.resume_command('train')} plays what is missing",
            )

    def _write_rows(self, launch: Launch, left: Mapping[str, tuple[Task, ...]]) -> None:
        run = self._prepared.run
        write_rows(Path(launch.train_rows), training_rows(self._prepared.train_tasks, self._spec, run.horizon, seed=run.seed))
        # verl reads an evaluation's rows once, and asks for them at each one: those of a resume must be whole where another follows.
        splits = left if launch.evaluate_only else self._limited()
        write_rows(Path(launch.evaluation_rows), evaluation_rows(splits, horizon=run.evaluation.horizon, limit=None))

    def _broken(self, trouble: StoreError) -> None:
        self._end(trouble)

    def take(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What a worker hands in; see ``WorkerSite`` and ``ToldTrainer``."""
        handlers = {
            "begin": self._begin,
            "recorded": self._recorded,
            "record": self._record,
            "server": self._server,
            "stop": self._stop,
            "mark": self._mark,
            "empty": self._empty,
            "metrics": self._metrics,
            "times": self._times,
            "checkpoint": self._checkpoint,
        }
        return handlers[message["do"]](message) or {}

    def _begin(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Write the schedule of a step or of an evaluation down, once."""
        step = int(message["step"])
        if message["phase"] == TRAIN:
            phase, schedule = TRAIN, self._training(step)
        else:
            phase = self._phase(step)
            schedule = self._evaluation(phase, step)
        new = [episode for episode in schedule if episode.id not in self._scheduled]
        if new:
            self._recorder.schedule(new)
            self._scheduled.update(episode.id for episode in new)
        return {"phase": phase, "step": step}

    def _recorded(self, message: Mapping[str, Any]) -> dict[str, Any]:
        episode = str(message["episode"])
        attempts = self._history.attempts.get(episode, ())
        return {"outcome": self._history.outcomes.get(episode), "attempts": [encode(record).decode() for record in attempts]}

    def _record(self, message: Mapping[str, Any]) -> None:
        record = decode(str(message["line"]).encode())
        if isinstance(record, AttemptRecord):
            self._recorder.attempted(record)
            self._induced[record.episode] = record.action_induced
            self._failed(record)
            self._spend(record)
        else:
            assert isinstance(record, OutcomeRecord), "workers make attempts and outcomes"
            self._recorder.write(record)
            self._over.add(record.episode)
            self.infra.count(record.episode, Outcome(record.outcome), induced=self._induced.get(record.episode, False))
        self.watch.moved(asyncio.get_running_loop().time())

    def _failed(self, record: AttemptRecord) -> None:
        """Keep by which cause an episode's last attempt failed, if it did."""
        self._causes.pop(record.episode, None)
        if record.outcome == Outcome.INFRA_ERROR.value:
            self._causes[record.episode] = record.cause or record.stop

    def _spend(self, record: AttemptRecord) -> None:
        """Every worker spends of one budget, which is kept here."""
        self._budget.add(read=sum(turn.context_tokens for turn in record.turns), sampled=record.action_tokens)
        if (spent := self._budget.spent()) is not None:
            self._end(Interrupted(f"{spent}; a resume with a higher limit goes on"))

    def _end(self, why: AgentgymError) -> None:
        """Have the launch ended; the first reason counts."""
        self.watch.stop = self.watch.stop or why

    def _server(self, message: Mapping[str, Any]) -> None:
        text = f"{message['url']}: {message['event']}"
        self._recorder.server_said(message["url"], message["event"], message["cause"], message["detail"])
        self._progress.warn(text if message["event"] == "closed" else f"{text}: {message['detail']}")

    def _stop(self, message: Mapping[str, Any]) -> None:
        kind = Interrupted if message["interrupted"] else TrainerError
        self._end(kind(str(message["message"])))

    def _mark(self, message: Mapping[str, Any]) -> None:
        self.watch.mark(str(message["phase"]), int(message["step"]), asyncio.get_running_loop().time())
        self._progress.advance(self._done, {"phase": str(message["phase"])})

    def _metrics(self, message: Mapping[str, Any]) -> None:
        step, horizon = int(message["step"]), self._prepared.run.horizon
        values = step_metrics(message["values"])
        self._refuse_provoked(step)
        self._refuse_lost(step)
        own = {"horizon": horizon_at(horizon, step), "stage": stage_at(horizon, step), "verl_step": step, "policy_version": step - 1}
        self._recorder.metrics(TRAIN, step, {**own, **values})
        self._done = step
        self._progress.advance(step, {"horizon": own["horizon"], "reward": values.get("reward_mean")})

    def _empty(self, message: Mapping[str, Any]) -> None:
        """A step has nothing to learn from, which verl does not survive."""
        step = int(message["step"])
        self._refuse_provoked(step)
        self._refuse_lost(step)
        whole = len(self._training(step))
        failed = {episode: cause for episode, cause in self._causes.items() if episode.startswith("train/") and int(episode.split("/")[2]) == step}
        counted = listed([f"{cause} {count}" for cause, count in sorted(Counter(failed.values()).items())]) if failed else "none"
        self._end(
            Degraded(
                f"step {step}: expected an episode to learn from, got none: the world failed in {len(failed)} of {whole} ({counted})",
                f"agentgym probe {shlex.quote(str(self._prepared.folder))} checks the world; {self._prepared.resume_command('train')} goes on",
            )
        )

    def _times(self, message: Mapping[str, Any]) -> None:
        self._recorder.metrics(TRAIN, int(message["step"]), step_metrics(message["values"]))

    def _refuse_provoked(self, step: int) -> None:
        """As the local engine does: a policy that crashes its world does not go on."""
        of_step = [induced for episode, induced in self._induced.items() if episode.startswith("train/") and episode.split("/")[2] == str(step)]
        limit = self._spec.max_action_induced_share
        if sum(of_step) > limit * len(of_step):
            self._end(
                TrainerError(
                    f"step {step}: expected at most {limit:.0%} of episodes to end in an error that their own action provokes, "
                    f"got {sum(of_step)} of {len(of_step)}",
                    "see the stop reasons in agentgym report; the world fails on these actions and should refuse them",
                )
            )

    def _refuse_lost(self, step: int) -> None:
        """verl goes on without an episode whose loop raised; every one of ours has an outcome before its step is over, a failed world's too."""
        wanted = self._training(step)
        if lost := [episode.id for episode in wanted if episode.id not in self._over]:
            self._end(
                TrainerError(
                    f"step {step}: expected an outcome of each of its {len(wanted)} episodes, got none of {len(lost)}, {lost[0]} among them",
                    f"see {short(self._folder)}/verl-{self._recorder.segment}.log; {self._prepared.resume_command('train')} goes on",
                )
            )

    def _checkpoint(self, message: Mapping[str, Any]) -> None:
        path = Path(str(message["path"])).relative_to(self._prepared.folder.absolute())
        self._recorder.sync()
        self._recorder.checkpoint(int(message["step"]), str(path), self._prepared.frozen.digest)
        if self._spec.keep_checkpoints is not None:
            forget_verl_checkpoints(self._folder, digest=self._prepared.frozen.digest, keep=self._spec.keep_checkpoints)

    def _training(self, step: int) -> list[ScheduledEpisode]:
        run = self._prepared.run
        drawn = tasks_at(self._prepared.train_tasks, run.seed, step, self._spec.tasks_per_step)
        return training_schedule(drawn, step=step, group_size=self._spec.algorithm.group_size, horizon=horizon_at(run.horizon, step))

    def _phase(self, step: int) -> str:
        """Which evaluation that of the weights after ``step`` is."""
        return "eval_before" if step == 0 else "eval_after" if step == self._spec.steps else "eval_during"

    def _evaluation(self, phase: str, step: int) -> list[ScheduledEpisode]:
        wanted = self._prepared.run.evaluation
        return evaluation_schedule(
            self._prepared.evaluation_tasks, phase=phase, step=step, samples=wanted.samples_per_task, horizon=wanted.horizon, limit=wanted.limit
        )

    def _limited(self) -> dict[str, tuple[Task, ...]]:
        limit = self._prepared.run.evaluation.limit
        return {name: tasks[:limit] for name, tasks in self._prepared.evaluation_tasks.items()}
