"""The ways of learning from stored data: what each collects, its trainer, and one step of it. Loads torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from agentgym_cli.episode.runner import EpisodeResult
from agentgym_cli.episode.types import Outcome, ScheduledEpisode, Task, Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.evolve import Iteration, iteration_at, kept, read_explored, write_explored
from agentgym_cli.learn.local import learning_rate_at
from agentgym_cli.learn.pairs import Candidate, Pair, pairs_of
from agentgym_cli.learn.preferences import PreferenceTrainer, Reference, cached_reference
from agentgym_cli.learn.schedules import horizon_at, tasks_at
from agentgym_cli.learn.supervised import Optimizer, StoredTrainer, SupervisedTrainer
from agentgym_cli.learn.update import make_optimizer
from agentgym_cli.recipe.schema.algorithms import AgentEvolSpec, DpoSpec, SftSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.recipe.schema.stored import ExploredPairsSource
from agentgym_cli.verbs.gathering import Gathering
from agentgym_cli.verbs.local import LocalEngine, refuse_provoked_errors
from agentgym_cli.verbs.play import Stage
from agentgym_cli.verbs.schedules import exploration_schedule
from agentgym_cli.verbs.stored import Stored

Numbers = Mapping[str, float | None]
REFERENCE = "reference.json"
"""File of a run with what the reference of its preferences says of each pair."""
EXPLORED = "explored"
"""Folder of a run with what it explored, one file for each step that explored."""


class Course(Protocol):
    """A way of learning."""

    def begin(self) -> StoredTrainer:
        """Make the trainer, while the model has the weights of step 0."""
        ...

    async def step(self, number: int) -> Numbers:
        """Make one step; returns numbers that two runs of one frozen run have in common."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every course needs."""

    engine: LocalEngine
    spec: TrainSpec
    stage: Stage
    stored: Stored
    tasks: Sequence[Task]
    """Of the training split."""
    folder: Path
    """The run's."""
    fresh: bool
    """True unless a checkpoint is resumed: what is collected before the first step is recorded once."""

    def gathering(self) -> Gathering:
        """What demonstrations are gathered with."""
        engine = self.engine
        return Gathering(
            run=engine.run,
            tokens=engine.tokens,
            system_prompt=engine.system_prompt,
            stage=self.stage,
            stored=self.stored,
            tasks=self.tasks,
            fresh=self.fresh,
        )

    def optimizer(self) -> Optimizer:
        """AdamW over what the recipe trains."""
        return make_optimizer(self.engine.model, weight_decay=self.spec.weight_decay, parameters=self.spec.parameters)

    def supervised(self) -> SupervisedTrainer:
        """A trainer of demonstrations."""
        engine = self.engine.run.engine
        return SupervisedTrainer(
            self.engine.model,
            learning_rate=0.0,
            max_gradient_norm=self.spec.max_gradient_norm,
            optimizer=self.optimizer(),
            name="train",
            pass_tokens=engine.pass_tokens,
            precision=engine.precision,
        )

    async def play_own(self, schedule: Sequence[ScheduledEpisode], *, version: int) -> list[Candidate]:
        """Scored episodes of the present policy that have something to learn."""
        self.engine.load(version)
        results, _ = await self.stage.play(schedule, self.engine.policy(None), announce="explore")
        refuse_provoked_errors(results, self.spec.max_action_induced_share, version + 1)
        return [found for result in results if (found := _candidate(result)) is not None]


def _candidate(result: EpisodeResult) -> Candidate | None:
    final = result.final
    if final.trajectory is None or final.reward is None:
        return None
    success = final.outcome is Outcome.SUCCESS
    return Candidate(task=final.episode.task.index, reward=final.reward, success=success, trajectory=final.trajectory)


async def course_of(setting: Setting) -> Course:
    """Collect what the recipe's algorithm learns from and say how. Raises TrainerError where there is nothing to learn."""
    algorithm = setting.spec.algorithm
    if isinstance(algorithm, DpoSpec):
        return _Preference(setting, algorithm, await _pairs(setting, algorithm))
    assert isinstance(algorithm, SftSpec | AgentEvolSpec), "an online algorithm is no course"
    shown = await setting.gathering().demonstrations(algorithm)
    return _Imitation(setting, shown) if isinstance(algorithm, SftSpec) else _Evolution(setting, algorithm, shown)


async def _pairs(setting: Setting, algorithm: DpoSpec) -> list[Pair]:
    laying = setting.gathering().laying()
    pairs = laying.pairs(setting.stored.pairs)
    sources = [laying.candidates(source) for source in setting.stored.candidates]
    for source in algorithm.pairs:
        if isinstance(source, ExploredPairsSource):
            sources.append(await _explored_pairs(setting, source))
    for candidates in sources:
        found, equal = pairs_of(candidates, margin=algorithm.margin, most=algorithm.pairs_per_task)
        pairs += found
        laying.left_out["equal"] += equal
    if setting.fresh:
        left_out = {f"left_out/{reason}": float(count) for reason, count in sorted(laying.left_out.items())}
        setting.stage.recorder.metrics("demonstrate", 0, {"pairs": len(pairs), "candidates": sum(map(len, sources)), **left_out})
    if not pairs:
        wanted = "a success and a failure" if algorithm.margin is None else f"returns {algorithm.margin:g} apart"
        raise TrainerError(
            f"train.algorithm.pairs: expected pairs of episodes of one task with {wanted}, got none of {sum(map(len, sources))} scored episodes",
            "more samples_per_task, another run, or a margin",
        )
    return pairs


async def _explored_pairs(setting: Setting, source: ExploredPairsSource) -> list[Candidate]:
    """Played before the checkpoint of step 0 is written; a resume from there on reads what was kept."""
    path = setting.folder / EXPLORED / "step-000000.jsonl"
    if not setting.fresh:
        return read_explored(path)
    run = setting.engine.run
    drawn = tuple(dict.fromkeys(tasks_at(setting.tasks, run.seed, 1, min(source.tasks, len(setting.tasks)))))
    schedule = exploration_schedule(drawn, step=0, samples=source.samples_per_task, horizon=horizon_at(run.horizon, 1))
    found = await setting.play_own(schedule, version=0)
    write_explored(path, found)
    return found


class _Preference:
    """Direct preference optimization on pairs."""

    def __init__(self, setting: Setting, algorithm: DpoSpec, pairs: Sequence[Pair]) -> None:
        self._setting, self._beta, self._pairs = setting, algorithm.beta, pairs
        self._reference: list[Reference] = []
        self._trainer: PreferenceTrainer | None = None

    def begin(self) -> PreferenceTrainer:
        """Its trainer; the reference is asked once, or read back."""
        setting, engine = self._setting, self._setting.engine.run.engine
        self._reference = cached_reference(
            setting.folder / REFERENCE, setting.engine.model, self._pairs, pass_tokens=engine.pass_tokens, precision=engine.precision
        )
        self._trainer = PreferenceTrainer(
            setting.engine.model,
            optimizer=setting.optimizer(),
            beta=self._beta,
            max_gradient_norm=setting.spec.max_gradient_norm,
            pass_tokens=engine.pass_tokens,
            precision=engine.precision,
        )
        return self._trainer

    async def step(self, number: int) -> Numbers:
        """One update on the pairs of a step, drawn in passes."""
        assert self._trainer is not None, "begin first"
        spec, count = self._setting.spec, self._setting.spec.tasks_per_step
        drawn = tasks_at(range(len(self._pairs)), self._setting.engine.run.seed, number, count)
        told = [(self._pairs[place], self._reference[place]) for place in drawn]
        learned = self._trainer.preference_step(told, step=number, learning_rate=learning_rate_at(spec, number))
        return {"policy_version": number - 1, "passes": number * count / len(self._pairs), **asdict(learned)}


class _Imitation:
    """Supervised learning on demonstrations."""

    def __init__(self, setting: Setting, shown: Sequence[Trajectory]) -> None:
        self._setting, self._shown = setting, shown
        self._trainer: SupervisedTrainer | None = None

    def begin(self) -> SupervisedTrainer:
        """Its trainer."""
        self._trainer = self._setting.supervised()
        return self._trainer

    async def step(self, number: int) -> Numbers:
        """One update on the demonstrations of a step."""
        return self._imitate(self._shown, number)

    def _imitate(self, shown: Sequence[Trajectory], step: int) -> dict[str, float | None]:
        assert self._trainer is not None, "begin first"
        setting = self._setting
        count = setting.spec.tasks_per_step
        drawn = tasks_at(shown, setting.engine.run.seed, step, count)
        learned = self._trainer.supervised_step(drawn, step=step, learning_rate=learning_rate_at(setting.spec, step))
        return {"policy_version": step - 1, "passes": step * count / len(shown), **asdict(learned)}


class _Evolution(_Imitation):
    """AgentEvol: what the present iteration learns from, explored at its first step, or read back where a resume enters it later."""

    def __init__(self, setting: Setting, algorithm: AgentEvolSpec, shown: Sequence[Trajectory]) -> None:
        super().__init__(setting, shown)
        self._algorithm = algorithm
        self._pool: tuple[int, list[Trajectory]] = (0, [])

    async def step(self, number: int) -> Numbers:
        """Explore where an iteration begins, then one update on the demonstrations and what was kept."""
        setting = self._setting
        iteration = iteration_at(number, iteration_steps=self._algorithm.iteration_steps, steps=setting.spec.steps)
        if self._pool[0] != iteration.number:
            explored = await self._explored(iteration, number)
            good = kept(explored, self._algorithm.keep_at_least)
            self._pool = iteration.number, [*self._shown, *(each.trajectory for each in good)]
        return {"iteration": iteration.number, **self._imitate(self._pool[1], number)}

    async def _explored(self, iteration: Iteration, number: int) -> list[Candidate]:
        setting = self._setting
        path = setting.folder / EXPLORED / f"step-{iteration.first:06d}.jsonl"
        if number != iteration.first:
            return read_explored(path)
        run, algorithm = setting.engine.run, self._algorithm
        drawn = tuple(dict.fromkeys(tasks_at(setting.tasks, run.seed, iteration.number, min(algorithm.explored_tasks, len(setting.tasks)))))
        horizon = horizon_at(run.horizon, iteration.first)
        schedule = exploration_schedule(drawn, step=iteration.first, samples=algorithm.samples_per_task, horizon=horizon)
        found = await setting.play_own(schedule, version=iteration.first - 1)
        write_explored(path, found)
        good = len(kept(found, algorithm.keep_at_least))
        numbers = {"iteration": iteration.number, "explored": len(schedule), "scored": len(found), "kept": good, "horizon": horizon}
        setting.stage.recorder.metrics("explore", iteration.first, {**numbers, "demonstrations": len(self._shown)})
        return found
