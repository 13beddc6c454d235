"""The servers of one environment: which of them gets the next session, and how long one waits when none does. Knows no wire format."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from agentgym_cli.env.breaker import COUNTED, Breaker, BreakerRule, State
from agentgym_cli.env.contract import EnvFailure, InfraCause, ServersLost
from agentgym_cli.env.endpoint import Endpoint, base_url
from agentgym_cli.env.reply import SessionId

_SAID = 300
"""Most characters of a failure that a message repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerChange:
    """A server was given up, or is back."""

    url: str
    event: Literal["opened", "closed"]
    """Of its circuit breaker: ``opened`` gives it up, ``closed`` takes it back."""
    cause: InfraCause | None
    """Of the failure that opened it; None when it closed."""
    detail: str
    """That failure's message; foreign text."""


@dataclass(slots=True, kw_only=True, eq=False)
class Replica:
    """One server, its breaker, and what this client has on it."""

    endpoint: Endpoint
    breaker: Breaker
    held: set[SessionId] = field(default_factory=set)
    """Sessions that are open here."""
    opening: int = 0
    refusing: bool = False
    """The last attempt to open a session failed."""
    last_failure: str = ""
    life: int = 0
    """How often its server is known to have ended: sessions of an earlier life are gone, though their ids may be handed out again."""
    lost: bool = False
    """Its server has ended and is not started again."""
    unclosed: bool = False
    """It was said that a session could not be closed here; of a server that is gone, every other session would say so too."""

    @property
    def load(self) -> int:
        """Sessions that are open or opening."""
        return len(self.held) + self.opening


class Replicas:
    """All servers of one environment, least recently used first. Time is the running loop's."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        rule: BreakerRule,
        recovery_seconds: float,
        on_change: Callable[[ServerChange], None] | None = None,
    ) -> None:
        """``recovery_seconds`` bounds the wait of ``ready``; ``on_change`` hears once when a breaker opens and once when it closes."""
        self._replicas = [Replica(endpoint=endpoint, breaker=Breaker(rule)) for endpoint in endpoints]
        self._recovery_seconds = recovery_seconds
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._dark_since: float | None = None

    def next(self) -> tuple[Replica, int]:
        """The server for a session that opens now and the trial that it is (0: none): the one with the fewest, in turns where several have as few.

        Servers whose breaker lets none through are passed over, unless that leaves none.
        """
        now = asyncio.get_running_loop().time()
        candidates = [replica for replica in self._replicas if replica.breaker.admits(now)] or self._replicas
        fullest = max(replica.load for replica in candidates)
        # A replica that refuses holds nothing, and would be asked every time.
        chosen = min(candidates, key=lambda replica: fullest if replica.refusing else replica.load)
        self._replicas.remove(chosen)
        self._replicas.append(chosen)
        return chosen, chosen.breaker.admit(now)

    async def ready(self) -> None:
        """Return once a server takes sessions. Raises ServersLost when none has for ``recovery_seconds``, at once when all have ended for good."""
        clock = asyncio.get_running_loop().time
        while not any(replica.breaker.admits(clock()) for replica in self._replicas):
            assert self._dark_since is not None, "no breaker is closed"
            if all(replica.lost for replica in self._replicas):
                raise ServersLost(f"servers of the environment: expected one that runs, got none: {self._said()}")
            lost_at = self._dark_since + self._recovery_seconds
            if clock() >= lost_at:
                raise self._lost()
            due = min((replica.breaker.opens_again for replica in self._replicas if replica.breaker.state is State.OPEN), default=math.inf)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(due, lost_at)):
                    await self._changed.wait()

    def answered(self, replica: Replica, trial: int) -> None:
        """A call was answered."""
        if replica.breaker.answered(asyncio.get_running_loop().time(), trial):
            self._dark_since = None
            self._tell(ServerChange(url=replica.endpoint.url, event="closed", cause=None, detail=""))

    def failed(self, replica: Replica, trial: int, failure: EnvFailure, *, began: float) -> None:
        """A call that was sent at ``began`` failed; what a server as such is not to blame for is an answer."""
        if failure.cause not in COUNTED:
            self.answered(replica, trial)
            return
        now = asyncio.get_running_loop().time()
        before = replica.breaker.state
        replica.last_failure = failure.message[:_SAID]
        if replica.breaker.failed(now, trial, began=began):
            self._darken(now)
            self._tell(ServerChange(url=replica.endpoint.url, event="opened", cause=failure.cause, detail=replica.last_failure))
        elif replica.breaker.state is not before:
            self._wake()

    def give_up(self, url: str, cause: InfraCause, detail: str, *, pause: float) -> None:
        """A server is known to be gone, by other means than its calls: none opens there for ``pause`` seconds; infinity waits for ``try_again``."""
        now = asyncio.get_running_loop().time()
        for replica in self._at(url):
            replica.last_failure = detail[:_SAID]
            replica.breaker.give_up(now + pause)
            self._darken(now)
            self._tell(ServerChange(url=replica.endpoint.url, event="opened", cause=cause, detail=replica.last_failure))

    def server_ended(self, url: str, detail: str, *, for_good: bool) -> None:
        """The process behind a server has ended, and its sessions with it: none opens there before ``try_again``, ever when it is ``for_good``."""
        for replica in self._at(url):
            replica.life += 1
            replica.held.clear()
            replica.lost = for_good
        self.give_up(url, InfraCause.CONNECT, detail, pause=math.inf)

    def try_again(self, url: str) -> None:
        """A server that was given up may be there again: the next session tries it."""
        now = asyncio.get_running_loop().time()
        for replica in self._at(url):
            if replica.breaker.state is not State.CLOSED:
                replica.breaker.give_up(now)
                self._wake()

    def _at(self, url: str) -> list[Replica]:
        return [replica for replica in self._replicas if replica.endpoint.url == base_url(url)]

    def _darken(self, now: float) -> None:
        """Note since when no server is well."""
        if self._dark_since is None and all(replica.breaker.state is not State.CLOSED for replica in self._replicas):
            self._dark_since = now

    def ended(self, replica: Replica, trial: int) -> None:
        """A session is over."""
        if trial:
            replica.breaker.ended(asyncio.get_running_loop().time(), trial)
            self._wake()

    def _tell(self, change: ServerChange) -> None:
        self._wake()
        if self._on_change is not None:
            self._on_change(change)

    def _wake(self) -> None:
        """Let everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _lost(self) -> ServersLost:
        return ServersLost(f"servers of the environment: expected one to answer within {self._recovery_seconds:g} s, got none from {self._said()}")

    def _said(self) -> str:
        return "; ".join(f"{replica.endpoint.url} ({replica.last_failure})" for replica in sorted(self._replicas, key=lambda each: each.endpoint.url))
