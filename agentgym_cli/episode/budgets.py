"""Deadlines of one episode and the budget of a whole run, each with its own stop reason. Time is the running event loop's clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType

from agentgym_cli.episode.clock import EpisodeClock
from agentgym_cli.episode.types import StopReason
from agentgym_cli.recipe.schema.world import BudgetsSpec


class BudgetSpent(Exception):
    """A deadline ran out; ``stop`` says on whose side. Control flow, not a failure."""

    def __init__(self, stop: StopReason, detail: str) -> None:
        super().__init__(stop, detail)
        self.stop = stop
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a policy's tokens cost, in money of the recipe's choice for a million; 0 where they cost nothing."""

    read: float = 0.0
    sampled: float = 0.0


FREE = Prices()


class RunBudget:
    """What a run may spend on tokens, and has: every episode's replies are added up here."""

    def __init__(self, budgets: BudgetsSpec, *, prices: Prices = FREE, read: int = 0, sampled: int = 0) -> None:
        """``read`` and ``sampled`` are the tokens of earlier segments."""
        self._most_tokens = budgets.run_tokens
        self._most_cost = budgets.run_cost
        self._prices = prices
        self.read = read
        self.sampled = sampled

    @property
    def cost(self) -> float:
        """What the tokens so far cost."""
        return (self.read * self._prices.read + self.sampled * self._prices.sampled) / 1e6

    def add(self, *, read: int, sampled: int) -> None:
        """Count one reply of a policy."""
        self.read += read
        self.sampled += sampled

    def spent(self) -> str | None:
        """Which limit is reached, in a sentence; None while none is."""
        tokens = self.read + self.sampled
        if self._most_tokens is not None and tokens >= self._most_tokens:
            return f"budgets.run_tokens: expected fewer than {self._most_tokens:,} tokens before a policy call, got {tokens:,}"
        if self._most_cost is not None and self.cost >= self._most_cost:
            return f"budgets.run_cost: expected less than {self._most_cost:g} spent before a policy call, got {self.cost:.6g}"
        return None

    def check(self) -> None:
        """Let a policy call through, or raise BudgetSpent(RUN_BUDGET)."""
        problem = self.spent()
        if problem is not None:
            raise BudgetSpent(StopReason.RUN_BUDGET, problem)


class Deadlines:
    """The deadlines of one episode that starts now, and what its two sides have used."""

    def __init__(self, budgets: BudgetsSpec) -> None:
        self._budgets = budgets
        self.clock = EpisodeClock()
        self._wall = asyncio.get_running_loop().time
        self._started = self._wall()
        self._episode_end = self.clock.time() + budgets.episode_seconds
        self._policy = _Side(StopReason.POLICY_DEADLINE, "policy call", budgets.policy_call_seconds)
        self._env = _Side(StopReason.ENV_DEADLINE, "env call", budgets.env_call_seconds)
        self.policy_acts = False
        """True from the start of a policy's call to the start of a world's call: whom an unexpected exception came from."""

    @property
    def seconds(self) -> float:
        """Since the episode started, also those in which the run's own limits held it back."""
        return self._wall() - self._started

    @property
    def policy_seconds(self) -> float:
        """Spent in calls of the policy."""
        return self._policy.spent

    @property
    def env_seconds(self) -> float:
        """Spent in calls of the world."""
        return self._env.spent

    def policy_call(self) -> _Call:
        """Bound one call of the policy (``async with``). Raises BudgetSpent(POLICY_DEADLINE)."""
        self.policy_acts = True
        return _Call(self._policy, self.clock, self._episode_end, self._budgets.episode_seconds)

    def env_call(self) -> _Call:
        """Bound one call of the world (``async with``). Raises BudgetSpent(ENV_DEADLINE)."""
        self.policy_acts = False
        return _Call(self._env, self.clock, self._episode_end, self._budgets.episode_seconds)


class _Side:
    """One side's limit per call and what it has used of the episode, in seconds."""

    def __init__(self, stop: StopReason, what: str, seconds: float) -> None:
        self.stop = stop
        self.what = what
        self.seconds = seconds
        self.spent = 0.0


class _Call:
    """The bounds of one call. An answer that comes late because the loop was held up is late all the same."""

    def __init__(self, side: _Side, clock: EpisodeClock, episode_end: float, episode_seconds: float) -> None:
        self._side = side
        self._clock = clock
        self._episode_end = episode_end
        self._episode_seconds = episode_seconds

    async def __aenter__(self) -> None:
        self._began = self._clock.time()
        self._end = min(self._began + self._side.seconds, self._episode_end)
        self._scope = self._clock.bound(self._end)
        await self._scope.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        ended = self._clock.time()
        self._clock.unbound()
        self._side.spent += ended - self._began
        try:
            await self._scope.__aexit__(kind, error, traceback)
        except TimeoutError as err:
            raise self._budget_spent() from err
        if error is None and ended >= self._end:
            raise self._budget_spent()

    def _budget_spent(self) -> BudgetSpent:
        if self._end < self._episode_end:
            return BudgetSpent(self._side.stop, f"{self._side.what}: expected an answer within {self._side.seconds:g} s, got none")
        return BudgetSpent(self._side.stop, f"{self._side.what}: expected the episode to end within {self._episode_seconds:g} s, got no end")
