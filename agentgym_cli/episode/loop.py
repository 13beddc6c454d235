"""One episode: observe, act, step, stop. Knows nothing of HTTP, tokens, storage or rewards' meaning."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass

from agentgym_cli.env.contract import ActionRule, EnvClient, EnvFailure, EnvSession, EpisodeRules, InfraCause, StepReply, content_digest
from agentgym_cli.episode.actions import ParsedAction, read_action, world_refused
from agentgym_cli.episode.budgets import BudgetSpent, Deadlines, RunBudget
from agentgym_cli.episode.outcome import outcome_of, return_of
from agentgym_cli.episode.policies.failures import PolicyProtocol, PolicyUnavailable
from agentgym_cli.episode.policies.protocol import ContextFull, Policy, PolicyEpisode, PolicyReply
from agentgym_cli.episode.types import AttemptResult, Outcome, ScheduledEpisode, StopReason, Trajectory, Turn
from agentgym_cli.errors import AgentgymError
from agentgym_cli.recipe.schema.world import BudgetsSpec

MAX_DETAIL_CHARS = 2_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stop:
    reason: StopReason
    cause: InfraCause | None = None
    detail: str = ""


async def run_episode(
    episode: ScheduledEpisode,
    *,
    attempt: int,
    seed: int,
    policy: Policy,
    env: EnvClient,
    rules: EpisodeRules,
    action_rule: ActionRule,
    budgets: BudgetsSpec,
    run_budget: RunBudget | None = None,
) -> AttemptResult:
    """One attempt at a scheduled episode, whatever becomes of it. ``run_budget`` is shared by all episodes of a run; None sets no limit.

    A failed world, a failed policy or a spent budget is a result, never an exception. The session is closed in every case. An exception that
    none of the contracts allows is logged and blamed on the side that raised it (ENV_ERROR/protocol, POLICY_PROTOCOL): an infra error,
    since a bug must not become a reward.

    Raises:
        AgentgymError: the run itself is broken (a store, a decoder), so no attempt was made.
        asyncio.CancelledError: after the session is closed; the attempt then never happened.
    """
    play = _Play(episode, policy=policy, env=env, rules=rules, action_rule=action_rule, budgets=budgets, run_budget=run_budget or RunBudget(budgets))
    stop = await play.until_stop(seed)
    return play.result(stop, attempt=attempt, seed=seed)


class _Play:
    """What one attempt has gathered so far."""

    def __init__(
        self,
        episode: ScheduledEpisode,
        *,
        policy: Policy,
        env: EnvClient,
        rules: EpisodeRules,
        action_rule: ActionRule,
        budgets: BudgetsSpec,
        run_budget: RunBudget,
    ) -> None:
        self._episode = episode
        self._policy = policy
        self._env = env
        self._rules = rules
        self._action_rule = action_rule
        self._close_seconds = budgets.env_call_seconds
        self._response_tokens = budgets.response_tokens
        self._run_budget = run_budget
        self._deadlines = Deadlines(budgets)
        self._turns: list[Turn] = []
        self._observation = ""
        self._trajectory: Trajectory | None = None
        self._verified: bool | None = None
        self._replica = ""

    async def until_stop(self, seed: int) -> _Stop:
        """Play to a stop and turn every failure of either side into one."""
        try:
            return await self._with_session(seed)
        except ContextFull:
            return _Stop(StopReason.CONTEXT)
        except BudgetSpent as spent:
            return _Stop(spent.stop, InfraCause.TIMEOUT if spent.stop is StopReason.ENV_DEADLINE else None, spent.detail)
        except EnvFailure as failure:
            stop = StopReason.ENV_DEADLINE if failure.cause is InfraCause.TIMEOUT else StopReason.ENV_ERROR
            return _Stop(stop, failure.cause, failure.message)
        except PolicyUnavailable as failure:
            return _Stop(StopReason.POLICY_UNAVAILABLE, failure.cause, failure.message)
        except PolicyProtocol as failure:
            return _Stop(StopReason.POLICY_PROTOCOL, failure.cause, failure.message)
        except (AssertionError, AgentgymError):
            raise
        except Exception as err:
            return self._blame(err)

    def result(self, stop: _Stop, *, attempt: int, seed: int) -> AttemptResult:
        """The record of what happened."""
        total = return_of([turn.reward for turn in self._turns if turn.reward is not None], self._rules)
        outcome, truncated = outcome_of(stop.reason, reward=total, rules=self._rules, verified=self._verified)
        return AttemptResult(
            episode=self._episode,
            attempt=attempt,
            seed=seed,
            stop=stop.reason,
            outcome=outcome,
            truncated=truncated,
            cause=stop.cause,
            detail=stop.detail[:MAX_DETAIL_CHARS],
            action_induced=False,
            reward=total if outcome in (Outcome.SUCCESS, Outcome.FAILURE) else None,
            final_observation=self._observation,
            turns=tuple(self._turns),
            trajectory=self._trajectory,
            prompt_tokens=self._turns[0].context_tokens if self._turns else 0,
            action_tokens=sum(turn.response_tokens for turn in self._turns),
            seconds=self._deadlines.seconds,
            policy_seconds=self._deadlines.policy_seconds,
            env_seconds=self._deadlines.env_seconds,
            replica=self._replica,
            verified=self._verified,
        )

    async def _with_session(self, seed: int) -> _Stop:
        session: EnvSession | None = None
        try:
            async with self._deadlines.env_call():
                session = await self._env.open()
            self._replica = session.replica
            return await self._with_player(session, seed)
        finally:
            if session is not None:
                await _to_the_end(session.close(), seconds=self._close_seconds, what=f"close of a session on {session.replica}")

    async def _with_player(self, session: EnvSession, seed: int) -> _Stop:
        player: PolicyEpisode | None = None
        try:
            async with self._deadlines.policy_call():
                player = await self._policy.open(self._episode, seed=seed, session=session, clock=self._deadlines.clock)
            return await self._turns_until_stop(session, player)
        finally:
            if player is not None:
                self._trajectory = player.trajectory()
                await _to_the_end(player.close(), seconds=None, what=f"close of an episode of policy {self._policy.name}")

    async def _turns_until_stop(self, session: EnvSession, player: PolicyEpisode) -> _Stop:
        async with self._deadlines.env_call():
            self._observation = await session.reset(self._episode.task.index)
        self._check_content()
        for _ in range(self._episode.horizon):
            if await self._turn(session, player):
                await self._verify(session)
                return _Stop(StopReason.DONE)
        return _Stop(StopReason.HORIZON)

    async def _verify(self, session: EnvSession) -> None:
        if self._rules.verified:
            async with self._deadlines.env_call():
                self._verified = await session.verify()

    def _check_content(self) -> None:
        expected, got = self._episode.task.digest, content_digest(self._observation)
        if expected and got != expected:
            raise EnvFailure(
                InfraCause.PROTOCOL,
                f"{self._episode.task.id}: {self._rules.pinned.mismatch(self._episode.task.index, expected=expected, got=got)}",
                hint="serve the world that the manifest was made from, or pin what this server has: agentgym recipe pin RECIPE -o FILE",
            )

    async def _turn(self, session: EnvSession, player: PolicyEpisode) -> bool:
        """One turn; True when the world says that the task is over."""
        observation, spent_before = self._observation, self._deadlines.policy_seconds
        said = await self._ask(player, observation)
        policy_seconds = self._deadlines.policy_seconds - spent_before
        parsed = read_action(said.text, self._action_rule)
        spent_before = self._deadlines.env_seconds
        step: StepReply | None = None
        try:
            self._refuse_too_long(said)
            step = await self._step(session, parsed)
            self._observation = step.observation
        finally:
            env_seconds = self._deadlines.env_seconds - spent_before
            self._turns.append(self._turn_of(observation, said, parsed, step, policy_seconds, env_seconds))
        return step.done

    async def _ask(self, player: PolicyEpisode, observation: str) -> PolicyReply:
        """One call of the policy, counted against the run's budget."""
        self._run_budget.check()
        async with self._deadlines.policy_call():
            said = await player.act(observation)
        self._run_budget.add(read=said.context_tokens, sampled=said.response_tokens)
        return said

    def _refuse_too_long(self, said: PolicyReply) -> None:
        if said.response_tokens > self._response_tokens:
            raise PolicyProtocol(f"policy {self._policy.name}: expected at most {self._response_tokens} tokens a turn, got {said.response_tokens}")

    async def _step(self, session: EnvSession, parsed: ParsedAction) -> StepReply:
        if parsed.local_observation is None:
            async with self._deadlines.env_call():
                return await session.step(parsed.action)
        carried = self._turns[-1].reward if self._turns and self._rules.reward_kind == "cumulative" else None
        return StepReply(observation=parsed.local_observation, reward=carried or 0.0, done=False)

    def _turn_of(
        self, observation: str, said: PolicyReply, parsed: ParsedAction, step: StepReply | None, policy_seconds: float, env_seconds: float
    ) -> Turn:
        refused = step is not None and world_refused(step.observation, self._rules.invalid_action)
        return Turn(
            observation=observation,
            text=said.text,
            action=parsed.action,
            valid=parsed.valid and not refused,
            reward=None if step is None else step.reward,
            done=step is not None and step.done,
            response_tokens=said.response_tokens,
            context_tokens=said.context_tokens,
            policy_seconds=policy_seconds,
            env_seconds=env_seconds,
            cut=said.cut,
        )

    def _blame(self, err: Exception) -> _Stop:
        _log.exception("episode %s: unexpected %s", self._episode.id, type(err).__name__)
        detail = f"unexpected {type(err).__name__}: {err}"
        if self._deadlines.policy_acts:
            return _Stop(StopReason.POLICY_PROTOCOL, InfraCause.PROTOCOL, detail)
        return _Stop(StopReason.ENV_ERROR, InfraCause.PROTOCOL, detail)


async def _to_the_end(closing: Coroutine[object, object, None], *, seconds: float | None, what: str) -> None:
    """Await ``closing`` even when we are cancelled meanwhile, for at most ``seconds``.

    What goes wrong is logged, unless it says that the run is broken; a cancellation is raised afterwards.
    """

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await closing

    task = asyncio.ensure_future(bounded())
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as err:
            cancelled = err
    error = None if task.cancelled() else task.exception()
    if isinstance(error, AssertionError | AgentgymError) and not isinstance(error, EnvFailure):
        raise error
    if error is not None:
        _log.warning("%s: expected it to end quietly, got %s: %s", what, type(error).__name__, error)
    if cancelled is not None:
        raise cancelled
