"""What a run took in all, and what one success of it took: failures, infra errors, retries and superseded attempts included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentgym_cli.report.accounting import each
from agentgym_cli.report.figures import Each
from agentgym_cli.report.frozen import FrozenFacts
from agentgym_cli.store.rows import SegmentRow
from agentgym_cli.store.task_rows import LatencyRow, PhaseSpendingRow, SpendingRow

_NOT_KEPT = "not kept by this run's records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """How much was spent of something; None with the reason where nobody knows."""

    value: float | None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpending:
    """All attempts of one phase."""

    phase: str
    attempts: int
    infra_errors: int | None
    tokens_read: Amount
    tokens_sampled: Amount
    attempt_seconds: Amount
    cost: Amount
    successes: int
    """Those of the phase that count."""
    per_success: tuple[Each, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """All attempts of a run."""

    attempts: int
    infra_errors: int | None
    """None where they cannot be told from failures."""
    turns: Amount
    tokens_read: Amount
    """The policy's context at each call, cached or not."""
    tokens_sampled: Amount
    attempt_seconds: Amount
    """Summed over attempts, which run side by side."""
    clock_seconds: Amount
    """While the run was going on, all segments together."""
    gpus: int | None
    gpu_hours: Amount
    """GPUs of the cluster times the hours on the clock, idle or not."""
    cost: Amount
    """At the recipe's prices, in their currency."""
    successes: int
    """Those that count, of the policy itself."""
    demonstrated: int
    """Successes of demonstrations, which another policy gave: what they took is counted, they are not."""
    per_success: tuple[Each, ...]
    phases: tuple[PhaseSpending, ...] = ()
    """The same by phase, but for what is on the clock of the whole run."""


def spend(
    row: SpendingRow, segments: Sequence[SegmentRow], facts: FrozenFacts, successes: int, *, demonstrated: int = 0, imported: bool = False
) -> Spending:
    """Add up a run.

    Args:
        successes: of the policy, in all phases in which it acts.
        demonstrated: those of demonstrations.
        imported: another program ran it: the times of its segment are those of the import, and infra errors are not told from failures.
    """
    clock = Amount(value=None, why=_NOT_KEPT) if imported else _clock(row, segments)
    kept = _kept if row.attempts else _no_attempt
    read, sampled = kept(row.tokens_read), kept(row.tokens_sampled)
    amounts = {
        "tokens read": read,
        "tokens sampled": sampled,
        "seconds on the clock": clock,
        "GPU-hours": _gpu_hours(clock, facts),
        "cost": _cost(read, sampled, facts),
    }
    return Spending(
        attempts=row.attempts,
        infra_errors=None if imported else row.infra_error,
        turns=kept(row.turns),
        tokens_read=read,
        tokens_sampled=sampled,
        attempt_seconds=kept(row.attempt_seconds),
        clock_seconds=clock,
        gpus=facts.gpus or None,
        gpu_hours=amounts["GPU-hours"],
        cost=amounts["cost"],
        successes=successes,
        demonstrated=demonstrated,
        per_success=tuple(each(what, amount.value, successes, amount.why or "") for what, amount in amounts.items()),
    )


def spend_phases(
    rows: Sequence[PhaseSpendingRow], turns: Sequence[LatencyRow], facts: FrozenFacts, successes: Mapping[str, int], *, imported: bool = False
) -> tuple[PhaseSpending, ...]:
    """Add up phases, in the order of ``successes``, which are by phase."""
    read = {row.phase: row.tokens_read for row in turns if row.split is None}
    order = list(successes)
    ordered = sorted(rows, key=lambda row: order.index(row.phase) if row.phase in order else len(order))
    return tuple(_phase(row, read.get(row.phase), facts, successes.get(row.phase, 0), imported=imported) for row in ordered)


def _phase(row: PhaseSpendingRow, tokens_read: int | None, facts: FrozenFacts, successes: int, *, imported: bool) -> PhaseSpending:
    read, sampled, seconds = _kept(tokens_read), _kept(row.tokens_sampled), _kept(row.attempt_seconds)
    amounts = {"tokens sampled": sampled, "attempt seconds": seconds, "cost": _cost(read, sampled, facts)}
    return PhaseSpending(
        phase=row.phase,
        attempts=row.attempts,
        infra_errors=None if imported else row.infra_error,
        tokens_read=read,
        tokens_sampled=sampled,
        attempt_seconds=seconds,
        cost=amounts["cost"],
        successes=successes,
        per_success=tuple(each(what, amount.value, successes, amount.why or "") for what, amount in amounts.items()),
    )


def _kept(value: float | None) -> Amount:
    return Amount(value=None, why=_NOT_KEPT) if value is None else Amount(value=float(value))


def _no_attempt(value: float | None) -> Amount:
    return Amount(value=value, why="no attempt was recorded")


def _clock(row: SpendingRow, segments: Sequence[SegmentRow]) -> Amount:
    """From the segments where all have ended; a killed one counts up to its last attempt."""
    if segments and all(segment.ended for segment in segments):
        try:
            spans = [datetime.fromisoformat(str(segment.ended)) - datetime.fromisoformat(segment.started) for segment in segments]
        except (ValueError, TypeError):
            return Amount(value=None, why="the times of its segments cannot be read")
        return Amount(value=sum(span.total_seconds() for span in spans))
    if row.run_seconds is not None:
        return Amount(value=row.run_seconds)
    return Amount(value=None, why="a segment has no end: it is going on, or was killed")


def _gpu_hours(clock: Amount, facts: FrozenFacts) -> Amount:
    if facts.endpoint and not facts.gpus:
        return Amount(value=None, why="the policy is served elsewhere; its GPUs are not known here")
    if not facts.gpus:
        return Amount(value=None, why="no GPUs in the frozen run")
    return clock if clock.value is None else Amount(value=facts.gpus * clock.value / 3600)


def _cost(read: Amount, sampled: Amount, facts: FrozenFacts) -> Amount:
    if facts.price_read is None or facts.price_sampled is None:
        return Amount(value=None, why="no prices in policy.endpoint")
    if read.value is None or sampled.value is None:
        return Amount(value=None, why="tokens were not kept")
    return Amount(value=(read.value * facts.price_read + sampled.value * facts.price_sampled) / 1e6)
