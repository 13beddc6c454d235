"""Published rows beside a run's as tables. What the run is set beside a paper with is shown with both its denominators."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_cli.report import phrases
from agentgym_cli.report.blocks import Grid
from agentgym_cli.report.papers import PaperRow


def paper_grids(rows: Sequence[PaperRow]) -> tuple[Grid, Grid]:
    """The run's own shares, each result once, and the papers beside their end-to-end part; at least one row."""
    own = dict.fromkeys(_own(row) for row in rows)
    unlike = dict.fromkeys(item.what for row in rows for item in row.incomparable)
    caption = "End-to-end success, this run and the papers, which give no other" + (f"; not like for like: {', '.join(unlike)}" if unlike else "")
    return (
        Grid(caption="This run, 95% intervals", names=("result", "end to end", "conditional", "infra", "worst to best"), rows=tuple(own)),
        Grid(caption=caption, names=("model", "this run", "paper", "points, 95%", "verdict"), rows=tuple(map(_paper, rows))),
    )


def _own(row: PaperRow) -> tuple[str, ...]:
    found = row.accounting
    where = f"{row.phase} / {row.split}" + ("" if row.step is None else f", step {row.step}") + (f"\n{row.category}" if row.category else "")
    rates = (found.end_to_end, found.conditional, found.infra_share)
    return (where, *(f"{phrases.percent(rate.value)} {phrases.of(rate)}\n{phrases.interval(rate)}" for rate in rates), phrases.extremes(found))


def _paper(row: PaperRow) -> tuple[str, ...]:
    where = f"{row.model}\narXiv {row.source}" + (f"\n{row.category}" if row.category else "")
    scored = row.accounting.conditional
    ours = f"{phrases.percent(row.ours.value)} {phrases.of(row.ours)}\nconditional {phrases.percent(scored.value)} {phrases.of(scored)}"
    theirs = f"{phrases.percent(row.theirs.value)}" + (f" {phrases.of(row.theirs)}" if row.theirs.denominator else "\nof ?")
    gap = phrases.NO_DATA if row.points is None else f"{row.points:+.1f}\n{phrases.signed(row.low, row.high)}"
    verdict = {True: "within noise", False: "differs", None: phrases.NO_DATA}[row.within_noise]
    return (where, f"{row.phase} / {row.split}\n{ours}", theirs, gap, verdict)
