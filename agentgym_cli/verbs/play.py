"""A phase of episodes: written down, played, recorded, counted. Knows no algorithm and no screen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agentgym_cli.env.content import pinned_tasks
from agentgym_cli.env.contract import ActionRule, EnvClient, EpisodeRules
from agentgym_cli.env.dialect import Dialect
from agentgym_cli.episode.budgets import FREE, Prices, RunBudget
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.episode.runner import EpisodeResult, run_schedule
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, Task
from agentgym_cli.recipe.schema.run import Run
from agentgym_cli.recipe.schema.world import BudgetsSpec, RetrySpec
from agentgym_cli.verbs.degraded import InfraShare
from agentgym_cli.verbs.history import NOTHING, History, Spent
from agentgym_cli.verbs.progress import Cell, Progress
from agentgym_cli.verbs.recorder import Recorder
from agentgym_cli.verbs.recording import restore
from agentgym_cli.verbs.world import pinned


@dataclass(slots=True)
class Tally:
    """Counts of finished episodes, for progress only; reports count in the store."""

    episodes: int = 0
    successes: int = 0
    scored: int = 0
    infra_errors: int = 0
    truncated: int = 0
    turns: int = 0
    invalid: int = 0
    action_tokens: int = 0
    rewards: list[float] = field(default_factory=list)

    def add(self, result: EpisodeResult) -> None:
        """Count one finished episode."""
        final = result.final
        self.episodes += 1
        self.successes += final.outcome is Outcome.SUCCESS
        self.scored += final.outcome in (Outcome.SUCCESS, Outcome.FAILURE)
        self.infra_errors += final.outcome is Outcome.INFRA_ERROR
        self.truncated += final.truncated
        self.turns += len(final.turns)
        self.invalid += sum(not turn.valid for turn in final.turns)
        self.action_tokens += final.action_tokens
        if final.reward is not None:
            self.rewards.append(final.reward)

    @property
    def success(self) -> float | None:
        """Successes among scheduled episodes that are over; None before the first."""
        return self.successes / self.episodes if self.episodes else None

    @property
    def reward_mean(self) -> float | None:
        """Mean over scored episodes; None without any."""
        return sum(self.rewards) / len(self.rewards) if self.rewards else None

    @property
    def invalid_share(self) -> float | None:
        """Share of turns with an action that could not be read or executed."""
        return self.invalid / self.turns if self.turns else None

    @property
    def truncated_share(self) -> float | None:
        """Share of episodes that a limit cut."""
        return self.truncated / self.episodes if self.episodes else None

    def cells(self) -> dict[str, Cell]:
        """What progress shows."""
        return {
            "success": percent(self.success),
            "invalid": percent(self.invalid_share),
            "cut": percent(self.truncated_share),
            "infra": self.infra_errors,
        }


def percent(share: float | None) -> str:
    """``12%``, or n/a without data."""
    return "n/a" if share is None else f"{100 * share:.0f}%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What every phase of episodes of one run shares."""

    env: EnvClient
    rules: EpisodeRules
    action_rule: ActionRule
    budgets: BudgetsSpec
    retry: RetrySpec
    run_budget: RunBudget
    concurrency: int
    run_seed: int
    recorder: Recorder
    history: History
    infra: InfraShare
    progress: Progress

    async def play(self, episodes: Sequence[ScheduledEpisode], policy: Policy, *, announce: str | None) -> tuple[list[EpisodeResult], Tally]:
        """Schedule ``episodes``, run those that earlier segments did not finish, record every attempt and outcome.

        Args:
            announce: name of the phase to show progress for; None shows none.

        Returns:
            Results in the order of ``episodes`` and their tally, recorded ones included.
        """
        self.recorder.schedule([episode for episode in episodes if episode.id not in self.history.scheduled])
        tally = Tally()
        if announce:
            over_before = sum(episode.id in self.history.outcomes for episode in episodes)
            self.progress.begin(announce, len(episodes), "episode", done=over_before, at_once=self.concurrency)

        def over(result: EpisodeResult) -> None:
            if result.episode.id not in self.history.outcomes:
                self.recorder.outcome(result)
                self.infra.count(result.episode.id, result.final.outcome, induced=result.final.action_induced)
            tally.add(result)
            if announce:
                self.progress.advance(tally.episodes, tally.cells())
                self.recorder.load_if_due()

        results = await run_schedule(
            episodes,
            policy=policy,
            env=self.env,
            rules=self.rules,
            action_rule=self.action_rule,
            budgets=self.budgets,
            retry=self.retry,
            concurrency=self.concurrency,
            run_seed=self.run_seed,
            on_attempt=self.recorder.attempt,
            on_final=over,
            recorded=self._recorded(episodes),
            run_budget=self.run_budget,
        )
        if announce:
            self.progress.end()
        return results, tally

    async def breathe(self) -> None:
        """Let a pending interrupt through between two pieces of work that do not await."""
        await asyncio.sleep(0)

    def _recorded(self, episodes: Sequence[ScheduledEpisode]) -> dict[str, list[AttemptResult]]:
        attempts = self.history.attempts
        return {e.id: [restore(record, e) for record in attempts[e.id]] for e in episodes if e.id in attempts}


def stage_of(run: Run, dialect: Dialect, env: EnvClient, tasks: Sequence[Task], recorder: Recorder, history: History, progress: Progress) -> Stage:
    """What all phases of a run share, from its frozen settings and all of its tasks."""
    rules = rules_of(run, dialect, tasks)
    return Stage(
        env=env,
        rules=rules,
        action_rule=rules.actions[run.prompt.action_format],
        budgets=run.budgets,
        retry=run.retry,
        run_budget=budget_of(run, history.spent),
        concurrency=run.engine.slots,
        run_seed=run.seed,
        recorder=recorder,
        history=history,
        infra=infra_share(run, history),
        progress=progress,
    )


def rules_of(run: Run, dialect: Dialect, tasks: Sequence[Task]) -> EpisodeRules:
    """The dialect's rules, with the run's own rule of success where it has one, and what pins its tasks."""
    rules = replace(dialect.rules(), pinned=pinned_tasks(dialect.spec, pinned(tasks)))
    return _judged(rules, run.reward.success_at_least)


def budget_of(run: Run, spent: Spent = NOTHING) -> RunBudget:
    """What a run may spend in all, and has."""
    return RunBudget(run.budgets, prices=_prices(run), read=spent.read, sampled=spent.sampled)


def infra_share(run: Run, history: History) -> InfraShare:
    """The failures of earlier segments, counted."""
    return InfraShare(run.env.max_infra_share, history.outcomes, induced_limit=run.env.max_action_induced_share, induced=_induced(history))


def _induced(history: History) -> frozenset[str]:
    """Episodes whose last attempt met the error of an earlier one on the same action."""
    return frozenset(episode for episode, attempts in history.attempts.items() if attempts[-1].action_induced)


def _prices(run: Run) -> Prices:
    """What the tokens of a run cost: an endpoint's cost what the recipe says, all others nothing."""
    endpoint = run.policy.endpoint
    if endpoint is None:
        return FREE
    return Prices(read=endpoint.price_per_million_input or 0.0, sampled=endpoint.price_per_million_output or 0.0)


def _judged(rules: EpisodeRules, success_at_least: float | None) -> EpisodeRules:
    """The dialect's rules, with the recipe's own rule of success where it has one."""
    return rules if success_at_least is None else replace(rules, success_reward=success_at_least)
