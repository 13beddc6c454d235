"""A whole schedule: which attempt runs when, what is tried again, what is final. Knows neither world nor policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace

from agentgym_cli.env.contract import ActionRule, EnvClient, EpisodeRules, InfraCause
from agentgym_cli.episode.budgets import RunBudget
from agentgym_cli.episode.loop import run_episode
from agentgym_cli.episode.policies.protocol import Policy
from agentgym_cli.episode.seeds import episode_seed
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason
from agentgym_cli.errors import AgentgymError, Interrupted
from agentgym_cli.recipe.schema.world import BudgetsSpec, RetrySpec

_WORLD_FAILED = (StopReason.ENV_ERROR, StopReason.ENV_DEADLINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """A scheduled episode and every attempt made at it."""

    episode: ScheduledEpisode
    attempts: tuple[AttemptResult, ...]
    """In order; at least one."""

    @property
    def final(self) -> AttemptResult:
        """The attempt that counts: the last."""
        return self.attempts[-1]


async def run_schedule(
    scheduled: Sequence[ScheduledEpisode],
    *,
    policy: Policy,
    env: EnvClient,
    rules: EpisodeRules,
    action_rule: ActionRule,
    budgets: BudgetsSpec,
    retry: RetrySpec,
    concurrency: int,
    run_seed: int,
    on_attempt: Callable[[AttemptResult], None] | None = None,
    on_final: Callable[[EpisodeResult], None] | None = None,
    recorded: Mapping[str, Sequence[AttemptResult]] | None = None,
    run_budget: RunBudget | None = None,
) -> list[EpisodeResult]:
    """Run every scheduled episode to its final attempt; one result each, in the order of the schedule.

    The policy's waves run one after the other. Infra errors are tried again, as the next attempt of the same episode in the same wave, after
    all waves have run and a pause that doubles (a world needs time to come back). No attempt begins while no server takes sessions.

    Args:
        scheduled: the whole schedule, also when a part of it is recorded: an episode's place in it decides its slot.
        retry: most attempts at one episode, the first included, also cause by cause, and the pauses between them in seconds.
        concurrency: most episodes in flight.
        on_attempt: called once per new attempt, before it counts; what it raises (a full disk) cancels everything and is raised here.
        on_final: called once per scheduled episode, as soon as no further attempt will be made, also when ``recorded`` alone settles it.
        recorded: by episode id, the attempts that an interrupted run of this schedule left; numbering goes on after them.
        run_budget: shared by all schedules of a run; None sets no limit.

    Raises:
        Interrupted: the run's budget is spent before all is settled; what was in flight is recorded and has no outcome.
        ServersLost: no server took sessions for as long as the recipe waits; what was in flight never happened.
        AgentgymError: what else broke the run. In every case no session is left open.
    """
    ledger = _Ledger(scheduled, retry=retry, recorded=recorded or {}, on_attempt=on_attempt, on_final=on_final)
    money = run_budget or RunBudget(budgets)

    async def one_attempt(episode: ScheduledEpisode) -> None:
        if money.spent():
            return
        await env.ready()
        number = ledger.next_attempt(episode)
        seed = episode_seed(run_seed, episode.id, number)
        result = await run_episode(
            episode, attempt=number, seed=seed, policy=policy, env=env, rules=rules, action_rule=action_rule, budgets=budgets, run_budget=money
        )
        ledger.add(result)

    waves = policy.waves(scheduled)
    pause = retry.pause_seconds
    while True:
        for wave in waves:
            await _bounded(one_attempt, ledger.open_in(wave), concurrency)
        if not (left := ledger.open_in(scheduled)):
            return ledger.results()
        _refuse_spent(money, f"{len(left)} of {len(scheduled)}")
        await asyncio.sleep(pause)
        pause = min(2 * pause, retry.longest_pause_seconds)


def _refuse_spent(budget: RunBudget, left: str) -> None:
    if (spent := budget.spent()) is not None:
        raise Interrupted(f"{spent}; {left} episodes have no outcome yet, a resume with a higher limit runs them")


class _Ledger:
    """Attempts made so far, by episode; says what is still open."""

    def __init__(
        self,
        scheduled: Sequence[ScheduledEpisode],
        *,
        retry: RetrySpec,
        recorded: Mapping[str, Sequence[AttemptResult]],
        on_attempt: Callable[[AttemptResult], None] | None,
        on_final: Callable[[EpisodeResult], None] | None,
    ) -> None:
        self._scheduled = scheduled
        self._retry = retry
        self._on_attempt = on_attempt
        self._on_final = on_final
        self._made: dict[str, list[AttemptResult]] = {episode.id: list(recorded.get(episode.id, ())) for episode in scheduled}
        assert len(self._made) == len(scheduled), "a schedule names every episode once"
        for episode in scheduled:
            if self._made[episode.id]:
                self._announce_if_final(episode)

    def open_in(self, episodes: Sequence[ScheduledEpisode]) -> list[ScheduledEpisode]:
        """Those that want a further attempt."""
        return [episode for episode in episodes if not self._is_final(episode)]

    def next_attempt(self, episode: ScheduledEpisode) -> int:
        """Number of the next attempt; the first is 1."""
        made = self._made[episode.id]
        return made[-1].attempt + 1 if made else 1

    def add(self, result: AttemptResult) -> None:
        """Record a new attempt. One without an outcome settles nothing: a resume makes it again under its number."""
        made = self._made[result.episode.id]
        result = replace(result, action_induced=_came_back(result, made))
        if self._on_attempt is not None:
            self._on_attempt(result)
        if result.outcome is not Outcome.MISSING:
            made.append(result)
            self._announce_if_final(result.episode)

    def results(self) -> list[EpisodeResult]:
        """All episodes in the order of the schedule."""
        return [self._result(episode) for episode in self._scheduled]

    def _result(self, episode: ScheduledEpisode) -> EpisodeResult:
        return EpisodeResult(episode=episode, attempts=tuple(self._made[episode.id]))

    def _is_final(self, episode: ScheduledEpisode) -> bool:
        made = self._made[episode.id]
        return bool(made) and not _tried_again(made, self._retry)

    def _announce_if_final(self, episode: ScheduledEpisode) -> None:
        if self._on_final is not None and self._is_final(episode):
            self._on_final(self._result(episode))


def _tried_again(made: Sequence[AttemptResult], retry: RetrySpec) -> bool:
    """True when another attempt follows: world or policy failed, attempts are left, also for this cause, and the cause is one that is retried."""
    last = made[-1]
    if last.outcome is not Outcome.INFRA_ERROR or last.attempt >= retry.attempts:
        return False
    if last.cause is None:
        return True
    return last.cause in retry.causes and sum(attempt.cause is last.cause for attempt in made) < most_attempts(last.cause, retry)


def most_attempts(cause: InfraCause, retry: RetrySpec) -> int:
    """Attempts at one episode that may end in ``cause``."""
    each = retry.per_cause
    limits = {
        InfraCause.CONNECT: each.connect,
        InfraCause.TIMEOUT: each.timeout,
        InfraCause.RESET: each.reset,
        InfraCause.SERVER_4XX: each.server_4xx,
        InfraCause.SERVER_5XX: each.server_5xx,
        InfraCause.PROTOCOL: each.protocol,
        InfraCause.REPORTED_ERROR: each.reported_error,
    }
    return limits[cause] or retry.attempts


def _came_back(result: AttemptResult, earlier: Sequence[AttemptResult]) -> bool:
    """True when the world failed behind the same action as in an earlier attempt at the same episode."""
    action = _failing_action(result)
    return action is not None and any(_failing_action(attempt) == action for attempt in earlier)


def _failing_action(result: AttemptResult) -> str | None:
    """The last action before the world failed; None when there was none, or the world did not fail."""
    return result.turns[-1].action if result.stop in _WORLD_FAILED and result.turns else None


async def _bounded(
    run: Callable[[ScheduledEpisode], Coroutine[object, object, None]], episodes: Sequence[ScheduledEpisode], concurrency: int
) -> None:
    """Run all episodes, at most ``concurrency`` at once. The first exception cancels the others and is raised."""
    queue = iter(episodes)

    async def worker() -> None:
        for episode in queue:
            await run(episode)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(episodes))):
                group.create_task(worker())
    except BaseExceptionGroup as failures:
        known = [failure for failure in failures.exceptions if isinstance(failure, AgentgymError)]
        raise (known or failures.exceptions)[0] from failures
