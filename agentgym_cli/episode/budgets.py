"""Deadlines of one episode, each with its own stop reason. Time is the running event loop's clock, so a test can make it virtual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentgym_cli.episode.types import StopReason
from agentgym_cli.recipe.schema.world import BudgetsSpec


class BudgetSpent(Exception):
    """A deadline ran out; ``stop`` says on whose side. Control flow, not a failure."""

    def __init__(self, stop: StopReason, detail: str) -> None:
        super().__init__(stop, detail)
        self.stop = stop
        self.detail = detail


def now() -> float:
    """Seconds on the running loop's monotonic clock."""
    return asyncio.get_running_loop().time()


class Deadlines:
    """The deadlines of one episode that starts now, and what its two sides have used."""

    def __init__(self, budgets: BudgetsSpec) -> None:
        self._budgets = budgets
        self._started = now()
        self.policy_seconds = 0.0
        self.env_seconds = 0.0

    @property
    def seconds(self) -> float:
        """Since the episode started."""
        return now() - self._started

    @asynccontextmanager
    async def policy_call(self) -> AsyncIterator[None]:
        """Bound one call of the policy. Raises BudgetSpent(POLICY_DEADLINE)."""
        began = now()
        try:
            async with self._bounded(self._budgets.policy_call_seconds, StopReason.POLICY_DEADLINE, "policy call"):
                yield
        finally:
            self.policy_seconds += now() - began

    @asynccontextmanager
    async def env_call(self) -> AsyncIterator[None]:
        """Bound one call of the world. Raises BudgetSpent(ENV_DEADLINE)."""
        began = now()
        try:
            async with self._bounded(self._budgets.env_call_seconds, StopReason.ENV_DEADLINE, "env call"):
                yield
        finally:
            self.env_seconds += now() - began

    @asynccontextmanager
    async def _bounded(self, seconds: float, stop: StopReason, what: str) -> AsyncIterator[None]:
        """An answer that comes late because the loop was held up is late all the same: the side that answered has used the time."""
        episode_end, call_end = self._started + self._budgets.episode_seconds, now() + seconds
        detail = f"{what}: expected an answer within {seconds:g} s, got none"
        if episode_end < call_end:
            detail = f"{what}: expected the episode to end within {self._budgets.episode_seconds:g} s, got no end"
        end = min(call_end, episode_end)
        try:
            async with asyncio.timeout_at(end) as scope:
                yield
        except TimeoutError as err:
            if not scope.expired():
                raise
            raise BudgetSpent(stop, detail) from err
        if now() >= end:
            raise BudgetSpent(stop, detail)
