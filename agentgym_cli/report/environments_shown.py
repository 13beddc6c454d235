"""Runs of several environments as a section: each with its whole account, then both averages over environments, named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.averages import averaged
from agentgym_cli.report.blocks import Block, Facts, Grid, Prose, Section
from agentgym_cli.report.environments import Environment, EnvironmentAverages
from agentgym_cli.report.figures import Rate

UNLIKE = "not like for like"
_NONE = "No policy was judged in several environments, so there is no average over them."


def side_by_side(found: Sequence[Environment], averages: Sequence[EnvironmentAverages], letters: Mapping[str, str]) -> list[Section]:
    """Nothing where all runs are of one environment; ``letters`` are what runs are called."""
    if not found:
        return []
    rows = tuple(_row(item, letters[item.run]) for item in found)
    names = ("run, environment", "end to end", "conditional", "infra", "worst to best")
    caption = "The latest evaluation of every split of a run together, 95% intervals; a success is what each environment calls one"
    sums = tuple(pair for item in found for pair in _account(item, letters[item.run]))
    blocks: list[Block] = [Grid(caption=caption, names=names, rows=rows), Facts(pairs=sums)]
    blocks += [block for item in averages for block in _averages(item)] or [Prose(text=_NONE)]
    return [Section(title="Environments", blocks=tuple(blocks))]


def _row(item: Environment, letter: str) -> tuple[str, ...]:
    accounting = item.whole.accounting
    rates = map(_rate, (accounting.end_to_end, accounting.conditional, accounting.infra_share))
    return (f"{letter}, {item.conditions.env}\n{item.policy}", *rates, phrases.extremes(accounting).replace(" to ", "\nto "))


def _rate(rate: Rate) -> str:
    return f"{phrases.percent(rate.value)} {phrases.of(rate)}\n{phrases.interval(rate)}"


def _account(item: Environment, letter: str) -> Iterator[tuple[str, str]]:
    left_out = f"; {item.whole.ledger.left_out:,} more tasks not scheduled by choice" if item.whole.ledger.left_out else ""
    yield f"{letter}, {item.conditions.env}", phrases.counted(item.whole.ledger, item.whole.first_attempts) + left_out
    if item.whole.latency is not None:
        yield "", f"turns of the whole run: {phrases.latency(item.whole.latency)}"


def _averages(item: EnvironmentAverages) -> Iterator[Block]:
    if item.averages is None:
        yield Prose(text=f"No average over environments for policy {item.policy}: {item.why}", tone="warning")
        return
    names = tuple(dict.fromkeys(each.what for each in item.incomparable))
    caution = f"; {UNLIKE}: {', '.join(names)}" if names else ""
    caption = f"Policy {item.policy}. Pooled: all episodes together. Macro: every environment alike{caution}"
    yield Grid(caption=caption, names=("average", "end to end", "conditional", "infra"), rows=tuple(averaged(item.averages)))
    if item.incomparable:
        rows = tuple((each.what, each.ours, each.theirs, each.why) for each in item.incomparable)
        yield Grid(caption="What differs between these runs beside the environment", names=("", "one", "another", "why it matters"), rows=rows)
