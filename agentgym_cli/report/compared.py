"""A comparison of runs as sections, for every form: what speaks against it first, then the numbers, then the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.blocks import Bars, Block, Facts, Gap, Gaps, Grid, Prose, Section
from agentgym_cli.report.compare import Comparisons, Played, RunComparison, RunSummary, SplitComparison
from agentgym_cli.report.differences import Difference
from agentgym_cli.report.environments_shown import UNLIKE, side_by_side
from agentgym_cli.report.figures import Accounting, Rate

_NAMED = 20
"""Most tasks that are named in one place."""


def title(found: Comparisons) -> str:
    """Who is compared with whom."""
    return f"{found.comparisons[0].base.run} against " + ", ".join(comparison.other.run for comparison in found.comparisons)


def compared(found: Comparisons) -> list[Section]:
    """Everything there is to say; the first run is the base."""
    names = [found.comparisons[0].base.run, *(comparison.other.run for comparison in found.comparisons)]
    letters = dict(zip(names, _letters(len(names)), strict=True))
    sections = [_who(found.comparisons), *side_by_side(found.environments, found.averages, letters)]
    for comparison in found.comparisons:
        name = comparison.other.run if len(found.comparisons) > 1 else ""
        sections.append(_against(comparison, name))
        sections += [_split(comparison, split, name) for split in comparison.splits]
    return sections


def _who(comparisons: Sequence[RunComparison]) -> Section:
    runs = [comparisons[0].base, *(comparison.other for comparison in comparisons)]
    rows = tuple(
        (name, run.run, f"{run.policy}\n{run.env}", _status(run), (run.digest or phrases.NO_DATA)[:12])
        for name, run in zip(_letters(len(runs)), runs, strict=True)
    )
    drift = tuple(Prose(text=f"{run.run}: {sentence}", tone="warning") for run in runs for sentence in run.drift)
    unfinished = tuple(
        Prose(text=f"{run.run} has not finished ({run.status}); its numbers are of what was recorded so far", tone="warning")
        for run in runs
        if run.status != "finished"
    )
    grid = Grid(
        caption="A is the base; differences are the other run minus A", names=("", "run", "policy, environment", "status", "digest"), rows=rows
    )
    return Section(title="Runs", blocks=(grid, *unfinished, *drift))


def _letters(count: int) -> list[str]:
    return [chr(ord("A") + number) if number < 26 else str(number + 1) for number in range(count)]


def _status(run: RunSummary) -> str:
    return f"{run.status}\n{run.label}" if run.label else run.status


def _against(comparison: RunComparison, name: str) -> Section:
    rows = tuple((item.what, item.ours, item.theirs, item.why) for item in comparison.incomparable)
    blocks: list[Block] = []
    if rows:
        blocks.append(Prose(text="These runs do not measure the same thing in every respect:", tone="warning"))
        blocks.append(Grid(caption="What differs", names=("", "A", "other", "why it matters"), rows=rows))
    else:
        blocks.append(Prose(text="Nothing that is recorded keeps them from being compared.", tone="good"))
    only = [("only in A", comparison.only_base), ("only in the other", comparison.only_other)]
    pairs = tuple((where, ", ".join(splits)) for where, splits in only if splits)
    blocks += [Facts(pairs=pairs)] if pairs else []
    blocks += [] if comparison.splits else [Prose(text="No split was evaluated in both, so there is nothing to compare.", tone="warning")]
    return Section(title=f"What speaks against the comparison{f': {name}' if name else ''}", blocks=tuple(blocks))


def _split(comparison: RunComparison, split: SplitComparison, name: str) -> Section:
    blocks: list[Block] = [_outcomes(comparison, split), _rates(split), _gaps(split), _differences(split)]
    blocks += _categories(split) if len(split.categories) > 1 else []
    pairs = [*_played("A", split.base_played), *_played("other", split.other_played)]
    pairs += [("tasks in both", f"{split.pairs:,}"), ("A's weights", split.base_weights), ("other's weights", split.other_weights)]
    pairs += [(what, _names(tasks)) for what, tasks in (("only in A", split.only_base), ("only in the other", split.only_other)) if tasks]
    pairs += [("other content", _names(split.other_content))] if split.other_content else []
    pairs += [("not pinned", f"{split.not_pinned:,} pairs are known by their numbers alone")] if split.not_pinned else []
    blocks.append(Facts(pairs=tuple(pairs)))
    if split.changed:
        shown = split.changed[:_NAMED]
        more = f", the first {len(shown)} of {len(split.changed):,}" if len(shown) < len(split.changed) else ""
        rows = tuple((pair.task, pair.category, pair.base, pair.other) for pair in shown)
        blocks.append(Grid(caption=f"Tasks that came out differently{more}", names=("task", "category", "A", "other"), rows=rows))
    return Section(title=f"{split.split}{f': {name}' if name else ''}", blocks=tuple(blocks))


def _played(name: str, item: Played) -> Iterator[tuple[str, str]]:
    left_out = f"; {item.ledger.left_out:,} more tasks not scheduled by choice" if item.ledger.left_out else ""
    yield f"{name}, counted", phrases.counted(item.ledger, item.first_attempts) + left_out
    if item.latency is not None:
        yield f"{name}, turns", phrases.latency(item.latency)


def outcome_counts(found: Accounting) -> tuple[int, int, int, int]:
    """Successes, failures, infra errors and missing episodes."""
    return found.success, found.failure, found.infra_error, found.missing


def _outcomes(comparison: RunComparison, split: SplitComparison) -> Bars:
    rows = ((f"A, {comparison.base.run}", outcome_counts(split.base)), (comparison.other.run, outcome_counts(split.other)))
    return Bars(title=f"What became of every scheduled episode of {split.split}", rows=rows)


def _gaps(split: SplitComparison) -> Gaps:
    named = [("", split.end_to_end), ("", split.conditional)]
    if len(split.categories) > 1:
        named += [(f"{item.name}, ", found) for item in split.categories for found in (item.end_to_end, item.conditional)]
    rows = tuple(Gap(label=f"{name}{item.what}", mean=_points(item.mean), low=_points(item.low), high=_points(item.high)) for name, item in named)
    return Gaps(title=f"Differences in {split.split}, other minus A, in points with 95% intervals{_caution(split)}", rows=rows)


def _points(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _caution(split: SplitComparison) -> str:
    """What a caption adds where the runs are not alike."""
    names = dict.fromkeys(item.what for item in split.incomparable)
    return f"; {UNLIKE}: {', '.join(names)}" if names else ""


def _names(tasks: Sequence[str]) -> str:
    more = f" and {len(tasks) - _NAMED:,} more" if len(tasks) > _NAMED else ""
    return f"{len(tasks):,}: {', '.join(tasks[:_NAMED])}{more}"


def _rates(split: SplitComparison) -> Grid:
    rows = [*_shares(split.base, split.other), *((f"not alike: {item.what}", item.ours, item.theirs) for item in split.incomparable)]
    return Grid(caption=f"All tasks of each run, 95% intervals{_caution(split)}", names=("", "A", "other"), rows=tuple(rows))


_RATES = (("end to end", "end_to_end"), ("conditional", "conditional"), ("infra", "infra_share"))


def _shares(base: Accounting | None, other: Accounting | None) -> Iterator[tuple[str, ...]]:
    """Both denominators, the infra share and the extremes of both runs; ``n/a`` where one has no such category."""
    both = (base, other)
    for name, field in _RATES:
        yield (name, *(phrases.NO_DATA if found is None else _rate(getattr(found, field)) for found in both))
    yield ("worst to best", *(phrases.NO_DATA if found is None else phrases.extremes(found) for found in both))


def _rate(rate: Rate) -> str:
    return f"{phrases.percent(rate.value)} {phrases.of(rate)}\n{phrases.interval(rate)}"


_PAIRED = ("difference, 95%", "better, worse", "p, Holm", "detectable", "verdict")


def _differences(split: SplitComparison) -> Grid:
    rows = tuple(_difference(item, split) for item in (split.end_to_end, split.conditional, split.reward))
    family = split.end_to_end.family
    caption = f"Paired by task; p-values after Holm over {family} comparison{'' if family == 1 else 's'}; detectable: shown four times in five"
    return Grid(caption=caption + _caution(split), names=("", *_PAIRED), rows=rows)


def _difference(item: Difference, split: SplitComparison) -> tuple[str, ...]:
    scale, unit = (1.0, "") if item.what == "reward" else (100.0, " points")
    if item.mean is None:
        return (f"{item.what}\n{item.tasks:,} tasks", phrases.NO_DATA, "", "", "", item.why or "")
    bounds = phrases.NO_DATA if item.low is None or item.high is None else f"{scale * item.low:+.3g} to {scale * item.high:+.3g}"
    left_out = f", {item.left_out:,} left out" if item.left_out else ""
    p_value = phrases.NO_DATA if item.p_adjusted is None else f"{item.p_adjusted:.3g}\n{item.test}"
    smallest = phrases.NO_DATA if item.smallest is None else f"{scale * item.smallest:.3g}{unit}"
    verdict = [{True: "significant", False: "not significant", None: "not tested"}[item.significant]]
    verdict += [UNLIKE] if split.incomparable else []
    verdict += [item.why] if item.why else []
    what = f"{item.what}\n{item.tasks:,} tasks{left_out}"
    return (what, f"{scale * item.mean:+.3g}{unit}\n{bounds}", f"{item.won:,}, {item.lost:,}", p_value, smallest, "\n".join(verdict))


def _categories(split: SplitComparison) -> Iterator[Grid]:
    shares = [(item.name if place == 0 else "", *row) for item in split.categories for place, row in enumerate(_shares(item.base, item.other))]
    caption = f"By category, all tasks of each run, 95% intervals{_caution(split)}"
    yield Grid(caption=caption, names=("category", "", "A", "other"), rows=tuple(shares))
    both = [(item.name, found) for item in split.categories for found in (item.end_to_end, item.conditional)]
    rows = [(f"{name}\n{cells[0]}", *cells[1:]) for name, found in both for cells in [_difference(found, split)]]
    yield Grid(caption=f"By category, paired by task, Holm over the categories{_caution(split)}", names=("category", *_PAIRED), rows=tuple(rows))
