"""Deadlines of one episode, each with its own stop reason. Time is the running event loop's clock, so a test can make it virtual."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from agentgym_cli.episode.types import StopReason
from agentgym_cli.recipe.schema.world import BudgetsSpec


class BudgetSpent(Exception):
    """A deadline ran out; ``stop`` says on whose side. Control flow, not a failure."""

    def __init__(self, stop: StopReason, detail: str) -> None:
        super().__init__(stop, detail)
        self.stop = stop
        self.detail = detail


class Deadlines:
    """The deadlines of one episode that starts now, and what its two sides have used."""

    def __init__(self, budgets: BudgetsSpec) -> None:
        self._budgets = budgets
        self._clock = asyncio.get_running_loop().time
        self._started = self._clock()
        self._episode_end = self._started + budgets.episode_seconds
        self._policy = _Side(StopReason.POLICY_DEADLINE, "policy call", budgets.policy_call_seconds)
        self._env = _Side(StopReason.ENV_DEADLINE, "env call", budgets.env_call_seconds)
        self.policy_acts = False
        """True from the start of a policy's call to the start of a world's call: whom an unexpected exception came from."""

    @property
    def seconds(self) -> float:
        """Since the episode started."""
        return self._clock() - self._started

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
        return _Call(self._policy, self._clock, self._episode_end, self._budgets.episode_seconds)

    def env_call(self) -> _Call:
        """Bound one call of the world (``async with``). Raises BudgetSpent(ENV_DEADLINE)."""
        self.policy_acts = False
        return _Call(self._env, self._clock, self._episode_end, self._budgets.episode_seconds)


class _Side:
    """One side's limit per call and what it has used of the episode, in seconds."""

    def __init__(self, stop: StopReason, what: str, seconds: float) -> None:
        self.stop = stop
        self.what = what
        self.seconds = seconds
        self.spent = 0.0


class _Call:
    """The bounds of one call. An answer that comes late because the loop was held up is late all the same."""

    def __init__(self, side: _Side, clock: Callable[[], float], episode_end: float, episode_seconds: float) -> None:
        self._side = side
        self._clock = clock
        self._episode_end = episode_end
        self._episode_seconds = episode_seconds

    async def __aenter__(self) -> None:
        self._began = self._clock()
        self._end = min(self._began + self._side.seconds, self._episode_end)
        self._scope = asyncio.timeout_at(self._end)
        await self._scope.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        ended = self._clock()
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
