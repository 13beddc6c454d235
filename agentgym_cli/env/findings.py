"""What the checks of a probe share: how they speak (NotMet, NotApplicable, Found) and their workbench, one server with its sessions and tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from agentgym_cli.env.contract import EnvFailure, InfraCause, StepReply, content_digest
from agentgym_cli.env.dialect_schema import DialectSpec
from agentgym_cli.env.endpoint import Endpoint
from agentgym_cli.env.reply import SessionId, WrongForm

T = TypeVar("T")

log = logging.getLogger(__name__)


class NotMet(Exception):
    """The server does not do what the contract says; the message is the finding."""

    def __init__(self, finding: str, rungs: tuple[Rung, ...] = ()) -> None:
        super().__init__(finding)
        self.rungs = rungs


class NotApplicable(Exception):
    """The check cannot be made on this server; the message is why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """How a server did with so many sessions at work at once."""

    sessions: int
    calls: int
    """Resets and steps that were made."""
    failed: int
    """Calls that gave no answer."""
    p50_ms: float | None
    """Median time of the calls that were answered, in milliseconds; None when none was."""
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a check saw, with measurements."""

    detail: str
    rungs: tuple[Rung, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard a level of the probe tries."""

    resets: int
    """Resets made by sessions at the same time; the last round may make some more."""
    least_resets: int = 0
    """So many of them are made however long they take."""
    seconds: float
    """No further round, cycle or timed step starts after this; the first always does."""
    tasks: int
    """Most tasks of which determinism is checked."""
    pinned_tasks: int
    """Most tasks whose content is compared with its digest."""
    timed_steps: int
    nonsense: int
    """Actions that make no sense, said in each of two tasks."""
    creates: int
    """Sessions made one after another beside one that is held, fewer where there is no close route."""
    rung_calls: int = 0
    """Calls under each load, shared by its sessions; each makes three at least."""
    cycles: int = 0
    """Sessions made and closed to look for a leak, as far as ``seconds`` allow."""


@dataclass(slots=True, kw_only=True)
class Bench:
    """One server under probe."""

    endpoint: Endpoint
    place: int = 0
    """Where the server stands among those of the call."""
    twin: Endpoint | None = None
    """The same server over connections of its own; None where there are none."""
    tasks: tuple[tuple[int, str], ...]
    """Task number and digest of its first observation ('' when it is not pinned); at least one."""
    size: int | None = None
    """How many tasks there are; None where nobody knows."""
    concurrency: int | None = None
    """Sessions that the run will have at work at once; None where there is no run."""
    idle_seconds: float = 60.0
    """How long a session is left alone to see whether it expires."""
    effort: Effort
    seen: dict[int, str] = field(default_factory=dict)
    """First observations, by task number, as they were when nobody else was asking."""
    digests: dict[int, str] = field(default_factory=dict)
    """Content digest of every task that was read alone, by number."""
    oracles: dict[int, tuple[str, ...] | None] = field(default_factory=dict)
    """What the oracle said, by task number; None where it does not say."""
    played: dict[tuple[int, tuple[str, ...]], list[StepReply]] = field(default_factory=dict)
    """Answers to scripts that were played alone, by task number and actions."""
    others: list[Bench] = field(default_factory=list)
    """The other servers of the call."""
    held: int = 0
    """Sessions that checks hold now."""
    closes: bool = True
    """False once a close ran into its deadline: no check waits for another."""
    malformed: WrongForm | None = None
    """How the first reply to a step differs from what the dialect says, where it does."""

    @property
    def spec(self) -> DialectSpec:
        """What the dialect says."""
        return self.endpoint.dialect.spec

    @property
    def first_task(self) -> int:
        """Number of the task that most checks play."""
        return self.tasks[0][0]

    @property
    def room(self) -> int:
        """Sessions that a check should hold at once: those that the dialect allows, and of a server that can be full no more than the run will."""
        most = self.spec.probe_sessions
        return most if self.spec.session.full is None or self.concurrency is None else min(most, self.concurrency)

    def indices(self, count: int) -> list[int]:
        """Numbers of at most ``count`` tasks, spread over those given."""
        return [index for index, _ in spread(self.tasks, count)]

    @asynccontextmanager
    async def sessions(self, count: int) -> AsyncIterator[list[SessionId]]:
        """Sessions for the time of a check, made at the same time; a server that does not close one is only logged.

        Raises NotApplicable where a server that can be full would need more room than the run does.
        """
        limit = max(self.room, self.concurrency or 0)
        if self.spec.session.full is not None and self.held + count > limit:
            raise NotApplicable(f"needs {self.held + count} sessions at once, of {limit} that the server is asked for")
        self.held += count
        try:
            async with AsyncExitStack() as stack:
                made = await asyncio.gather(*(self.endpoint.create() for _ in range(count)), return_exceptions=True)
                stack.push_async_callback(self.release, [session for session in made if not isinstance(session, BaseException)])
                yield answered(made)
        finally:
            self.held -= count

    async def first_observation(self, index: int) -> str:
        """What a session of its own says first; asked once per task."""
        if index not in self.seen:
            async with self.sessions(1) as [session]:
                self.seen[index] = await self.endpoint.reset(session, index)
            self.digests[index] = content_digest(self.seen[index])
        return self.seen[index]

    async def release(self, sessions: Sequence[SessionId]) -> None:
        """Close sessions, each once and all at the same time. A server that does not is only logged."""
        await asyncio.gather(*map(self._close, dict.fromkeys(sessions)))

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
