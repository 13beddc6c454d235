"""How numbers are spelled, the same in every form of a report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import isfinite

from agentgym_cli.report.figures import Accounting, Change, FirstAttempts, Ledger, Rate, Unwritten
from agentgym_cli.report.model import Groups, Latency, Part, Probe, Segment, ServerChange, Spent, Stop

NO_DATA = "n/a"
_FRACTION = re.compile(r"(?<=:[0-9]{2})\.[0-9]+")
LONGEST_DRIFT = 500
"""Most characters of one line about drift."""


def percent(value: float | None) -> str:
    """``60.0%``, or ``n/a``."""
    return NO_DATA if value is None else f"{100 * value:.1f}%"


def of(rate: Rate) -> str:
    """``60 of 100``; why there is no share where there is none."""
    if rate.value is None and rate.why:
        return rate.why
    return f"{rate.count:,} of {rate.denominator:,}"


def shared(rate: Rate, what: str) -> str:
    """``12.5% (1 of 8 turns)``, or ``n/a: no turn``."""
    return f"{NO_DATA}: {rate.why}" if rate.value is None else f"{percent(rate.value)} ({of(rate)} {what})"


def interval(rate: Rate) -> str:
    """``50.2 to 69.1%``, or ``n/a``."""
    return bounds(rate.low, rate.high)


def bounds(low: float | None, high: float | None) -> str:
    """``50.2 to 69.1%`` from two fractions, or ``n/a``."""
    return NO_DATA if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}%"


def signed(low: float | None, high: float | None) -> str:
    """``-2.1 to +7.0`` from two differences in points, or ``n/a``."""
    return NO_DATA if low is None or high is None else f"{low:+.1f} to {high:+.1f}"


def methods(accounting: Accounting) -> str:
    """How the intervals were made: ``95%, wilson``, or rate by rate where they differ."""
    rates = {"end to end": accounting.end_to_end, "conditional": accounting.conditional, "infra": accounting.infra_share}
    used = {name: rate.method or NO_DATA for name, rate in rates.items()}
    if len(set(used.values())) == 1:
        return f"95%, {used['infra']}"
    return "95%, " + ", ".join(f"{name} {method}" for name, method in used.items())


def bootstraps(accounting: Accounting) -> str:
    """``end to end 41.0 to 58.2%, infra 1.0 to 4.5%``: the cluster bootstrap where it stands beside an interval; '' where it does nowhere."""
    rates = {"end to end": accounting.end_to_end, "conditional": accounting.conditional, "infra": accounting.infra_share}
    return ", ".join(f"{name} {bounds(rate.beside.low, rate.beside.high)}" for name, rate in rates.items() if rate.beside)


def apart_from(rate: Rate, usual: Rate) -> list[str]:
    """What a row says of its interval: how it was made where that is not as in ``usual``, and the bootstrap beside it."""
    said = [rate.method] if rate.method and rate.method != usual.method else []
    return said + ([f"bootstrap {bounds(rate.beside.low, rate.beside.high)}"] if rate.beside else [])


def extremes(accounting: Accounting) -> str:
    """``60.0% to 70.0%``, or ``n/a``."""
    worst, best = percent(accounting.worst_case.value), percent(accounting.best_case.value)
    return worst if worst == NO_DATA else f"{worst} to {best}"


def points(change: Change) -> tuple[str, str]:
    """``+12.3`` and its 95% interval ``+4.0 to +20.1``, both ``n/a`` without data."""
    if change.points is None:
        return NO_DATA, NO_DATA
    if change.low is None or change.high is None:
        return f"{change.points:+.1f}", NO_DATA
    return f"{change.points:+.1f}", f"{change.low:+.1f} to {change.high:+.1f}"


def overlap(change: Change) -> str:
    """Whether the two rates' own intervals ``overlap`` or stand ``apart``."""
    return {None: NO_DATA, True: "overlap", False: "apart"}[change.intervals_overlap]


def number(value: float | None) -> str:
    """Up to four significant digits, thousands with commas; ``n/a`` for none and for what no number can hold."""
    if value is None or not isfinite(value):
        return NO_DATA
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """``45.2 s``, ``12 min 3 s`` or ``3 h 12 min``; ``n/a`` for more than a number can hold."""
    if not isfinite(seconds):
        return NO_DATA
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def moment(text: str) -> str:
    """A moment as recorded, to the second, UTC with a Z."""
    return _FRACTION.sub("", text).replace("+00:00", "Z")


def time_span(begun: str, ended: str | None) -> str:
    """Two moments, UTC with a Z."""
    return f"{moment(begun)} to {moment(ended or 'now')}"


def stop(item: Stop) -> str:
    """``env_error (server_5xx) 10``."""
    return f"{item.reason} ({item.cause}) {item.episodes:,}" if item.cause else f"{item.reason} {item.episodes:,}"


def counted(found: Ledger, first: FirstAttempts) -> str:
    """The sum of all that was scheduled, and what the first attempts alone would have given where that is something else."""
    said = [found.sentence]
    said += [f"{found.action_induced:,} of the infra errors came back on the same action"] if found.action_induced else []
    said += [f"first attempts only: {first_attempts(first)}"] if first.retried else []
    return "; ".join(said)


def first_attempts(first: FirstAttempts) -> str:
    """What the first attempts alone would have given, with both denominators."""
    accounting = first.accounting
    if accounting is None or first.retried is None:
        return f"{NO_DATA}: the files do not say which attempt an episode is"
    if accounting.scheduled and accounting.missing == accounting.scheduled:
        return f"{NO_DATA}: {accounting.end_to_end.why}"
    if first.retried == 0:
        return "the same as under the retry policy: no episode was tried again"
    named = (("end to end", accounting.end_to_end), ("conditional", accounting.conditional), ("infra", accounting.infra_share))
    shares = ", ".join(f"{percent(rate.value)} {name} ({of(rate) if rate.value is None else interval(rate)})" for name, rate in named)
    return f"{shares}, {extremes(accounting)} worst to best; tried again under the retry policy: {first.retried:,}"


def spent(item: Spent) -> str:
    """Attempts, turns, tokens and time."""
    kept = [f"{item.attempts:,} attempts"]
    kept += [f"{value:,} {name}" for value, name in ((item.turns, "turns"), (item.action_tokens, "action tokens")) if value is not None]
    kept += [f"{duration(item.seconds)} summed over attempts"] if item.seconds is not None else []
    lacking = [name for value, name in ((item.turns, "turns"), (item.action_tokens, "action tokens"), (item.seconds, "time")) if value is None]
    return ", ".join(kept) + (f"; {' and '.join(lacking)} {NO_DATA}: not kept" if lacking else "")


def turn_seconds(value: float) -> str:
    """``0.0123``, to three significant digits; ``<0.001`` for what nobody waits for."""
    return "<0.001" if 0 < value < 0.001 else f"{value:.3g}"


def latency(item: Latency) -> str:
    """``policy p50 0.5 s, p95 0.9 s; world p50 0.01 s, p95 0.02 s; of 800 turns that were kept``."""
    named = (("policy", item.policy_p50, item.policy_p95), ("world", item.env_p50, item.env_p95))
    said = [
        f"{who} {NO_DATA}: not kept" if p50 is None or p95 is None else f"{who} p50 {turn_seconds(p50)} s, p95 {turn_seconds(p95)} s"
        for who, p50, p95 in named
    ]
    return "; ".join([*said, f"of {item.turns:,} turns that were kept"])


def groups(item: Groups) -> str:
    """``1,800 planned, 1.0% dropped (18 of 1,800), 25.0% without variance (450 of 1,800)``."""
    return (
        f"{item.planned:,} planned, {percent(item.dropped.value)} dropped ({of(item.dropped)}), "
        f"{percent(item.zero_variance.value)} without variance ({of(item.zero_variance)})"
    )


def segment(item: Segment) -> str:
    """One line about a segment."""
    resumed = "" if item.resumed_from_step is None else f", resumed from step {item.resumed_from_step}"
    gone = f"; superseded and not counted: {item.superseded_attempts:,} attempts, {item.superseded_outcomes:,} outcomes" + (
        f", {item.superseded_records:,} records in all" if item.superseded_records else ""
    )
    return f"{item.segment}: {item.status}{resumed}, begun {moment(item.started)}" + (gone if item.superseded_records else "")


def server(item: ServerChange) -> str:
    """``given up http://127.0.0.1:36001 in segment 1: timeout, POST /step: no answer in 60 s``."""
    because = ", ".join(filter(None, (item.cause, item.detail)))
    return f"{item.event} {item.url} in segment {item.segment}" + (f": {because}" if because else "")


def probes(items: Sequence[Probe]) -> str:
    """``28 pass, 2 n/a, 1 known deviation``."""
    counted = Counter(item.result for item in items)
    return ", ".join(f"{counted[result]:,} {result}" for result in ("pass", "fail", "n/a", "known deviation") if counted[result])


def cut_short(item: Unwritten) -> str:
    """That a schedule is not all there, and what that leaves open."""
    worst, best = percent(item.worst_case.value), percent(item.best_case.value)
    return f"incomplete: {item.written:,} of {item.planned:,} episodes were written down; worst to best case over all of them {worst} to {best}"


def details(part: Part) -> list[tuple[str, str]]:
    """What else there is to say about a part, as (name, value); examples are foreign text."""
    found = [("schedule", cut_short(part.unwritten))] if part.unwritten else []
    found += [("counted", part.ledger.sentence), ("stopped by", ", ".join(stop(item) for item in part.stops) or NO_DATA)]
    found += [(f"{item.cause}, e.g.", item.example) for item in part.stops if item.cause and item.example]
    if part.accounting.infra_error:
        found.append(("action induced", f"{of(part.action_induced)} infra errors came back on the same action"))
    found += [
        ("truncated", shared(part.truncated, "episodes")),
        ("invalid actions", shared(part.invalid_actions, "turns")),
        ("first attempts only", first_attempts(part.first_attempts)),
        ("tasks", f"{part.tasks:,}{_left_out(part)}"),
        ("outcome from", part.outcome_from),
        ("intervals", methods(part.accounting) + _categories_too(part)),
        *([("cluster bootstrap", bootstraps(part.accounting))] if bootstraps(part.accounting) else []),
        *([("turns", latency(part.latency))] if part.latency else []),
        ("spent", spent(part.spent)),
    ]
    return found


def _left_out(part: Part) -> str:
    """What was not scheduled by choice, behind the number of tasks that were; names of categories are foreign text."""
    if not part.left_out:
        return ""
    named = ", ".join(f"{each.category} {each.tasks:,}" for each in part.left_out_categories)
    return f", {part.left_out:,} more not scheduled by choice" + (f" ({named})" if named else "")


def _categories_too(part: Part) -> str:
    """Whether a table by category has intervals that were made in another way."""
    whole = part.accounting
    pairs = [
        pair
        for each in (category.accounting for category in part.categories)
        for pair in ((each.end_to_end, whole.end_to_end), (each.conditional, whole.conditional), (each.infra_share, whole.infra_share))
    ]
    others = len(part.categories) > 1 and any(rate.method and rate.method != usual.method for rate, usual in pairs)
    return "; categories as their rows say" if others else ""


def seed(value: int | None) -> str:
    """A run's seed; that of an imported run is not known."""
    return "unknown" if value is None else str(value)
