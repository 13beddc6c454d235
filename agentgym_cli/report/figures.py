"""The figures of a report as values: shares, counts and averages, each with what it is of. Computes none of them."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym_cli.report.statistics.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share and what it is a share of."""

    count: int
    denominator: int
    value: float | None
    """None when the denominator is 0: no data."""
    why: str | None = None
    """Why there is no value."""
    low: float | None = None
    """95% interval; None without data, and for bounds, which have no sampling error of their own."""
    high: float | None = None
    method: str | None = None
    beside: Interval | None = None
    """A second interval where the first leans on a normal mean of tasks: the cluster bootstrap's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Episodes of one part of a run. Success is shown against both denominators, with the infra share and both extreme cases."""

    scheduled: int
    scored: int
    success: int
    failure: int
    infra_error: int
    missing: int
    end_to_end: Rate
    """Successes of scheduled."""
    conditional: Rate
    """Successes of scored."""
    infra_share: Rate
    """Infra errors of scheduled."""
    worst_case: Rate
    """End-to-end success if every unscored episode had failed."""
    best_case: Rate
    """End-to-end success if every unscored episode had succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """A schedule that was to be longer than what was written down of it: the run ended before any of it was played."""

    planned: int
    """Episodes that were to be scheduled, by the frozen run."""
    written: int
    worst_case: Rate
    """End-to-end success of what was planned, if all that has no score had failed."""
    best_case: Rate
    """The same, if it had succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Episodes of one outcome, by why."""

    why: str
    episodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Where every scheduled episode went; its four outcomes sum to what was scheduled."""

    success: int
    failure: tuple[Tally, ...]
    """By stop reason."""
    infra_error: tuple[Tally, ...]
    """By cause."""
    action_induced: int
    """Of the infra errors, those that came back on the same action."""
    missing: tuple[Tally, ...]
    """By stop reason; ``no attempt`` where none was recorded."""
    scheduled: int
    left_out: int | None
    """Tasks not scheduled by choice, so outside the sum; None where that is unknown."""
    sentence: str
    """``60 success + 30 failure (horizon 30) + 10 infra error (server_5xx 10) + 0 missing = 100 scheduled``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """The plain mean of one share over scenarios, each of which weighs alike."""

    value: float | None
    low: float | None
    high: float | None
    over: tuple[str, ...]
    """Scenarios with data."""
    without: tuple[str, ...]
    """Scenarios without, which the mean leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Averages:
    """The two averages over scenarios, each named: all episodes together, and every scenario alike."""

    scenarios: str
    """What is averaged over: ``categories``, ``splits`` or ``environments``."""
    pooled: Accounting
    macro_end_to_end: Macro
    macro_conditional: Macro
    macro_infra_share: Macro


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """How much of something one success took, over everything that was spent."""

    what: str
    spent: float | None
    successes: int
    value: float | None
    why: str | None = None
    """Why there is no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAttempts:
    """What the same episodes would have counted as without retries."""

    retried: int | None
    """Episodes that got more than one attempt; None where nobody can say."""
    accounting: Accounting | None
    """None where nobody can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The difference of one rate between two evaluations, in percentage points."""

    points: float | None
    """After minus before; None when one of them has no data."""
    low: float | None
    """95% interval in points; None where it cannot be had."""
    high: float | None
    method: str | None
    intervals_overlap: bool | None
    """Of the two rates' own intervals; None when one has none."""
