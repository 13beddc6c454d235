"""What the checks of a probe share: how they speak (NotMet, NotApplicable) and their workbench, one server with its sessions and tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from agentgym_cli.env.contract import EnvFailure, InfraCause
from agentgym_cli.env.dialect_schema import DialectSpec
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.reply import SessionId

T = TypeVar("T")

log = logging.getLogger(__name__)


class NotMet(Exception):
    """The server does not do what the contract says; the message is the finding."""


class NotApplicable(Exception):
    """The check cannot be made on this server; the message is why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard a level of the probe tries."""

    rounds: int
    """Most rounds of concurrent resets."""
    seconds: float
    """No further round or timed step starts after this; the first always does."""
    tasks: int
    """Most tasks of which determinism is checked."""
    pinned_tasks: int
    """Most tasks whose content is compared with its digest."""
    timed_steps: int


@dataclass(slots=True, kw_only=True)
class Bench:
    """One server under probe."""

    endpoint: Endpoint
    tasks: tuple[tuple[int, str], ...]
    """Task number and digest of its first observation ('' when it is not pinned); at least one."""
    effort: Effort
    seen: dict[int, str] = field(default_factory=dict)
    """First observations, by task number, as they were when nobody else was asking."""
    closes: bool = True
    """False once a close ran into its deadline: no check waits for another."""

    @property
    def spec(self) -> DialectSpec:
        """What the dialect says."""
        return self.endpoint.dialect.spec

    def indices(self, count: int) -> list[int]:
        """Numbers of at most ``count`` tasks, spread over those given."""
        return [index for index, _ in spread(self.tasks, count)]

    @asynccontextmanager
    async def sessions(self, count: int) -> AsyncIterator[list[SessionId]]:
        """Sessions for the time of a check, made at the same time; a server that does not close one is only logged."""
        async with AsyncExitStack() as stack:
            made = await asyncio.gather(*(self.endpoint.create() for _ in range(count)), return_exceptions=True)
            for session in dict.fromkeys(made):
                if not isinstance(session, BaseException):
                    stack.push_async_callback(self._close, session)
            yield answered(made)

    async def first_observation(self, index: int) -> str:
        """What a session of its own says first; asked once per task."""
        if index not in self.seen:
            async with self.sessions(1) as [session]:
                self.seen[index] = await self.endpoint.reset(session, index)
        return self.seen[index]

    async def _close(self, session: SessionId) -> None:
        try:
            if self.closes:
                await self.endpoint.close(session)
        except EnvFailure as failure:
            self.closes = failure.cause is not InfraCause.TIMEOUT
            log.debug("probe: session not closed: %s", failure)


def answered(results: Sequence[T | BaseException]) -> list[T]:
    """What calls made at once returned; raises the first failure, now that none of them runs any more."""
    values = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        values.append(result)
    return values


def spread(things: Sequence[T], count: int) -> list[T]:
    """At most ``count`` of ``things`` in their order, evenly spaced, the first included."""
    if len(things) <= count:
        return list(things)
    return [things[position * len(things) // count] for position in range(count)]
