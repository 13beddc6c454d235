"""A circuit breaker: when a server gets no new session, and when it is tried again. Keeps no time of its own and calls nobody."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from agentgym_cli.env.contract import InfraCause

COUNTED = frozenset({InfraCause.CONNECT, InfraCause.TIMEOUT, InfraCause.RESET, InfraCause.SERVER_5XX})
"""Failures of a server as such. Whatever else it answers, it answers."""
TRIAL_ANSWERS = 3
"""Answers in a row, of one trial or several, after which a server counts as well: create, reset and one more."""


class State(StrEnum):
    """Whether a server gets sessions."""

    CLOSED = "closed"
    """It does."""
    OPEN = "open"
    """It does not, until a pause is over."""
    HALF_OPEN = "half_open"
    """One session tries it; no other opens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRule:
    """When a breaker opens and how long it stays so."""

    failures: int = 5
    """Failed calls in a row that open it."""
    pause: float = 1.0
    """Seconds from opening to the first trial; doubled after each trial that fails."""
    longest: float = 30.0
    """Where the doubling ends, in seconds."""


USUAL = BreakerRule()
"""The rule of a recipe that says nothing."""


class Breaker:
    """The breaker of one server. ``now`` is in seconds, on a clock that never goes back; ``trial`` is what ``admit`` gave a session."""

    def __init__(self, rule: BreakerRule) -> None:
        self._rule = rule
        self._failures = 0
        self._pause = rule.pause
        self._trials = 0
        self._answers = 0
        self._last_answer = -math.inf
        self.state = State.CLOSED
        self.opens_again = 0.0
        """When a trial is due; means something while it is open."""

    def admits(self, now: float) -> bool:
        """True when a session may open now."""
        return self.state is State.CLOSED or (self.state is State.OPEN and now >= self.opens_again)

    def admit(self, now: float) -> int:
        """A session opens; the number of the trial that it is, 0 when it is an ordinary one (also where ``admits`` would have said no)."""
        if self.state is not State.OPEN or now < self.opens_again:
            return 0
        self.state = State.HALF_OPEN
        self._trials += 1
        return self._trials

    def answered(self, now: float, trial: int) -> bool:
        """A call was answered; True when that closes the breaker."""
        self._last_answer = now
        if self.state is State.CLOSED:
            self._failures = 0
        elif self._tries(trial):
            self._answers += 1
            if self._answers >= TRIAL_ANSWERS:
                self.state, self._failures, self._answers, self._pause = State.CLOSED, 0, 0, self._rule.pause
                return True
        return False

    def failed(self, now: float, trial: int, *, began: float) -> bool:
        """A call that was sent at ``began`` failed in a counted way; True when that opens the breaker, which a trial that fails only opens again.

        One that hung while others were answered says nothing of the server as a whole.
        """
        if self.state is State.CLOSED:
            if began < self._last_answer:
                return False
            self._failures += 1
            if self._failures >= self._rule.failures:
                self._open(now + self._pause)
                return True
        elif self._tries(trial):
            self._answers, self._pause = 0, min(2 * self._pause, self._rule.longest)
            self._open(now + self._pause)
        return False

    def give_up(self, until: float) -> None:
        """Open it at once, until a time: what happened elsewhere says that the server is gone, or that it is there again."""
        self._answers = 0
        self._open(until)

    def ended(self, now: float, trial: int) -> None:
        """A session is over. A trial that ends without a verdict makes room for the next one at once."""
        if self._tries(trial):
            self._open(now)

    def _tries(self, trial: int) -> bool:
        """True for the session that tries the server now; what older sessions meet says nothing."""
        return self.state is State.HALF_OPEN and trial == self._trials

    def _open(self, until: float) -> None:
        self.state, self.opens_again = State.OPEN, until
