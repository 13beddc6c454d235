"""Which way of learning a recipe means, begun and gone on with alike. Loads torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from agentgym_cli.episode.types import Task
from agentgym_cli.recipe.schema.algorithms import OnlineSpec
from agentgym_cli.recipe.schema.learning import TrainSpec
from agentgym_cli.verbs.courses import Setting, course_of
from agentgym_cli.verbs.folders import Checkpoint
from agentgym_cli.verbs.local import Keeper, LocalEngine, reinforce
from agentgym_cli.verbs.offline import StoredLearning
from agentgym_cli.verbs.play import Stage
from agentgym_cli.verbs.prepare import Prepared
from agentgym_cli.verbs.stored import Stored


class Learning(Protocol):
    """What a run does between its two evaluations."""

    def begin(self, found: Checkpoint | None) -> None:
        """Start from the model as it is, kept as step 0, or go on from a checkpoint. Raises TrainerError for another run's checkpoint."""
        ...

    async def go_on(self, after: int) -> None:
        """Steps ``after`` + 1 to the last."""
        ...


class Reinforcement:
    """An online algorithm: every step plays what it learns from."""

    def __init__(self, keeper: Keeper, tasks: Sequence[Task], splits: Mapping[str, Sequence[Task]], stage: Stage) -> None:
        self._keeper, self._tasks, self._splits, self._stage = keeper, tasks, splits, stage

    def begin(self, found: Checkpoint | None) -> None:
        """As ``Learning`` says."""
        if found is None:
            self._keeper.start()
        else:
            self._keeper.restore(found)

    async def go_on(self, after: int) -> None:
        """As ``Learning`` says."""
        await reinforce(self._keeper, self._tasks, self._splits, self._stage, after=after)


async def learning_of(prepared: Prepared, spec: TrainSpec, stored: Stored, engine: LocalEngine, stage: Stage, *, fresh: bool) -> Learning:
    """The learning of a recipe, with what it learns from collected.

    Args:
        fresh: False where a checkpoint is resumed.

    Raises:
        TrainerError: there is nothing to learn from.
    """
    digest, splits = prepared.frozen.digest, prepared.evaluation_tasks
    if isinstance(spec.algorithm, OnlineSpec):
        keeper = Keeper(engine, spec, prepared.folder, digest=digest, recorder=stage.recorder)
        return Reinforcement(keeper, prepared.train_tasks, splits, stage)
    setting = Setting(engine=engine, spec=spec, stage=stage, stored=stored, tasks=prepared.train_tasks, folder=prepared.folder, fresh=fresh)
    return StoredLearning(setting, await course_of(setting), splits, digest=digest)
