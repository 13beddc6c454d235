"""Demonstrations that a run learns from, gathered before its first step: stored ones laid out, the oracle's played. The same for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym_cli.episode.policies.oracle import OraclePolicy
from agentgym_cli.episode.tokens import TurnTokens
from agentgym_cli.episode.types import Task, Trajectory
from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.demonstrations import demonstration
from agentgym_cli.learn.schedules import horizon_at
from agentgym_cli.recipe.schema.algorithms import AgentEvolSpec, SftSpec
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.schema.stored import OracleSource
from agentgym_cli.verbs.laying import Laying
from agentgym_cli.verbs.play import Stage
from agentgym_cli.verbs.schedules import oracle_schedule
from agentgym_cli.verbs.stored import Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Where demonstrations come from, and in which turns they are laid out."""

    run: Run
    tokens: TurnTokens
    system_prompt: str
    stage: Stage
    stored: Stored
    tasks: Sequence[Task]
    """Of the training split."""
    fresh: bool
    """True unless a checkpoint is resumed: what is gathered before the first step is recorded once."""

    def laying(self) -> Laying:
        """What lays out stored episodes; the horizon of step 1 bounds their turns."""
        turns = horizon_at(self.run.horizon, 1)
        return Laying(self.tokens, system_prompt=self.system_prompt, turns=turns, context=self.run.budgets.context_tokens)

    async def demonstrations(self, algorithm: SftSpec | AgentEvolSpec) -> list[Trajectory]:
        """Demonstrations of all sources, in order; what was left out and why is recorded. Raises TrainerError where none is left."""
        laying = self.laying()
        shown = laying.trajectories(self.stored.demonstrations)
        for source in algorithm.demonstrations:
            if isinstance(source, OracleSource):
                shown += await self._oracle(source, laying)
        if self.fresh:
            left_out = {f"left_out/{reason}": float(count) for reason, count in sorted({**self.stored.left_out, **laying.left_out}.items())}
            self.stage.recorder.metrics("demonstrate", 0, {"demonstrations": len(shown), **left_out})
        if not shown:
            raise TrainerError(
                f"train.algorithm.demonstrations: expected some that can be learned, got none: left out {dict(laying.left_out) or 'nothing'}",
                "raise horizon or budgets.context_tokens, or name sources whose replies are marked to be learned",
            )
        return shown

    async def _oracle(self, source: OracleSource, laying: Laying) -> list[Trajectory]:
        run, stage = self.run, self.stage
        form = run.prompt.action_format
        schedule = oracle_schedule(self.tasks, seed=run.seed, count=source.count, horizon=horizon_at(run.horizon, 1))
        oracle = OraclePolicy(action_format=form, env_call_seconds=max(run.budgets.env_call_seconds, stage.rules.oracle_seconds))
        results, _ = await stage.play(schedule, oracle, announce="demonstrate")
        shown = []
        for result in results:
            found = demonstration(result.final, self.tokens, system_prompt=self.system_prompt, action_format=form)
            if found is None:
                laying.left_out["no_success"] += 1
            elif laying.fits(found, len(result.final.turns)):
                shown.append(found)
        return shown
