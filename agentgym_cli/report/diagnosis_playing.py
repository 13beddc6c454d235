"""Rules about episodes: how they end, what the policy repeats, what the world takes, and where a run stood still."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.accounting import share
from agentgym_cli.report.figures import Rate
from agentgym_cli.report.signals import Signals
from agentgym_cli.report.verdict import Verdict, nothing
from agentgym_cli.store.diagnosis_rows import GapRow

MOST_TRUNCATED = 0.3
LEAST_EPISODES = 20
MOST_INVALID = 0.1
LEAST_TURNS = 100
MOST_LOOPING = 0.1
SLOW_SECONDS = 5.0
NOTICED_SECONDS = 0.5
"""A quicker world is no trouble even where a policy takes no time at all."""
MOST_IN_WORLD = 0.5
LEAST_ATTEMPT_SECONDS = 10.0
"""Of a run in all: less says nothing about a world."""
STALL_SECONDS = 60.0
STALL_TIMES = 20.0
_MOST_OF = 0.8
"""An attempt that takes so much of a gap is what the run waited for."""


def truncation(signals: Signals) -> Verdict:
    """Episodes that were cut, by phase and horizon."""
    rates = {f"{row.phase}, horizon {row.horizon}": share(row.truncated, row.scheduled) for row in signals.cuts if row.scheduled >= LEAST_EPISODES}
    return _any_above(rates, MOST_TRUNCATED, f"no phase and horizon with {LEAST_EPISODES} episodes")


def invalid_actions(signals: Signals) -> Verdict:
    """Turns without an action, by phase."""
    rates = {}
    for phase in dict.fromkeys(row.phase for row in signals.counts):
        rows = [row for row in signals.counts if row.phase == phase]
        rates[phase] = share(sum(row.invalid_actions for row in rows), sum(row.turns for row in rows))
    return _any_above(
        {phase: rate for phase, rate in rates.items() if rate.denominator >= LEAST_TURNS}, MOST_INVALID, f"no phase with {LEAST_TURNS} turns"
    )


def _any_above(rates: dict[str, Rate], most: float, without: str) -> Verdict:
    if not rates:
        return nothing(without)
    said = "; ".join(f"{name}: {phrases.percent(rate.value)} ({phrases.of(rate)})" for name, rate in rates.items())
    return Verdict(fired=any(rate.value is not None and rate.value > most for rate in rates.values()), said=said)


def repeated_actions(signals: Signals) -> Verdict:
    """Attempts that say the same again and again."""
    row = signals.loops
    rate = share(row.looping, row.attempts)
    if rate.value is None or row.attempts < LEAST_EPISODES:
        return nothing(f"fewer than {LEAST_EPISODES} attempts kept their turns")
    example = f", e.g. {row.example}" if row.example else ""
    return Verdict(fired=rate.value > MOST_LOOPING, said=f"{phrases.percent(rate.value)} ({phrases.of(rate)}) attempts{example}")


def slow_world(signals: Signals) -> Verdict:
    """Time that goes to the world."""
    known = {row.phase: row.env_p95 for row in signals.latencies if row.phase and row.split is None and row.env_p95 is not None}
    total, world = signals.spending.attempt_seconds or 0.0, signals.spending.env_seconds or 0.0
    if not known and not total:
        return nothing("no times were kept")
    part = world / total if total >= LEAST_ATTEMPT_SECONDS else None
    said = [f"95% of turns within {seconds:.3g} s in {phase}" for phase, seconds in known.items()]
    said += [f"{phrases.percent(part)} of {phrases.duration(total)} of attempts in the world"] if part is not None else []
    slowest = max(known.values(), default=0.0)
    mostly = slowest > NOTICED_SECONDS and part is not None and part > MOST_IN_WORLD
    return Verdict(fired=slowest > SLOW_SECONDS or mostly, said="; ".join(said) or "less than ten seconds of attempts in all")


def stalls(signals: Signals) -> Verdict:
    """Times in which nothing ended."""
    if not signals.gaps:
        return nothing("the clock of the run was not kept with its attempts")
    long = [gap for gap in signals.gaps if gap.seconds > STALL_SECONDS and gap.seconds > STALL_TIMES * gap.typical]
    if not long:
        gap = signals.gaps[0]
        return Verdict(fired=False, said=f"at most {phrases.duration(gap.seconds)}, {waited_for(gap)}; usual are {phrases.duration(gap.typical)}")
    return Verdict(fired=True, said=_stalled(long))


def _stalled(gaps: Sequence[GapRow]) -> str:
    said = [f"{phrases.duration(gap.seconds)} in segment {gap.segment}, {waited_for(gap)}" for gap in gaps]
    return "; ".join(said) + f"; usual are {phrases.duration(gaps[0].typical)}"


def waited_for(gap: GapRow) -> str:
    """What a run did in a gap: waited for the world or the policy in one attempt, updated between two steps, or changed phases."""
    here = f"{gap.phase}, step {gap.step}"
    if gap.attempt_seconds >= _MOST_OF * gap.seconds:
        who = "the world" if gap.env_seconds >= gap.policy_seconds else "the policy"
        return f"waiting for {who} in {here} ({gap.episode})"
    if gap.before_phase != gap.phase:
        return f"between {gap.before_phase} and {gap.phase}"
    if gap.before_step != gap.step:
        return f"in the update between steps {gap.before_step} and {gap.step} of {gap.phase}"
    return f"between two attempts of {here}"
