"""Published results beside a run's: the rows that ship with the package, and what may be said of the distance to each."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentgym_cli.recipe.protocols import TURNS
from agentgym_cli.report.accounting import estimate
from agentgym_cli.report.conditions import NO_MODEL, UNKNOWN, Conditions, Incomparable
from agentgym_cli.report.figures import Accounting, Rate
from agentgym_cli.report.statistics.intervals import Estimate, apart, wilson
from agentgym_cli.report.statistics.power import smallest_apart

_FOLDER = Path(__file__).parent / "published"
_PROTOCOL = "agentgym-rl"
_UNPAIRED = "nobody can say that they are the same, task by task: the two are taken as independent samples"
# Turn limits that the appendix of arXiv 2509.08755 gives, where its scripts have others.
_TURNS_IN_PAPER = {"textcraft": 20, "sciworld": 20, "searchqa": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published share."""

    source: str
    """arXiv number of the paper."""
    env: str
    """Dialect of the environment."""
    model: str
    category: str
    """'' for all tasks together."""
    of: int | None
    """Tasks, one episode each; None where the paper does not say."""
    percent: float
    note: str

    @property
    def count(self) -> int | None:
        """Successes, read back from the percentage."""
        return None if self.of is None else round(self.percent * self.of / 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run has to show: a split of one evaluation, or a category of it."""

    phase: str
    split: str
    step: int | None
    category: str
    accounting: Accounting
    """Its end-to-end success is what papers count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRow:
    """A run's share beside a published one."""

    source: str
    protocol: str
    env: str
    model: str
    category: str
    phase: str
    split: str
    step: int | None
    ours: Rate
    """End-to-end success, as the papers count."""
    accounting: Accounting
    """All else of the run that end-to-end success is not shown without; papers have nothing of the kind."""
    theirs: Rate
    points: float | None
    """Ours minus theirs, in percentage points."""
    low: float | None
    """95% interval of that, in points."""
    high: float | None
    within_noise: bool | None
    """Whether the interval holds 0: then the data do not tell the two apart. None without an interval."""
    smallest_points: float | None
    """Distance that samples of these sizes would have shown four times in five."""
    note: str
    """What is odd about the published number; '' for nothing."""
    incomparable: tuple[Incomparable, ...]
    """What keeps the two from being the same measurement; the paper's tasks are never known by content."""


@cache
def published() -> tuple[Published, ...]:
    """Every row that ships."""
    found: list[Published] = []
    for path in sorted(_FOLDER.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found += [_row(values) for values in csv.DictReader(file)]
    return tuple(found)


def _row(values: dict[str, str]) -> Published:
    return Published(
        source=values["source"],
        env=values["env"],
        model=values["model"],
        category=values["category"],
        of=int(values["of"]) if values["of"] else None,
        percent=float(values["percent"]),
        note=values["note"],
    )


def beside_papers(results: Sequence[Result], conditions: Conditions) -> tuple[PaperRow, ...]:
    """Published rows of the run's environment beside each of its results, category beside category and all beside all."""
    rows = [row for row in published() if row.env == conditions.env]
    if not rows:
        return ()
    differs = tuple(_incomparable(conditions))
    return tuple(_beside(result, row, (*differs, *_sizes(result, row))) for result in results for row in rows if row.category == result.category)


def _beside(result: Result, row: Published, differs: tuple[Incomparable, ...]) -> PaperRow:
    theirs = _theirs(row)
    rate = result.accounting.end_to_end
    ours, other = estimate(rate), estimate(theirs)
    points = None if ours is None else 100 * (ours.value - row.percent / 100)
    gap = None if ours is None or other is None else apart(ours, other, "newcombe")
    smallest = None if ours is None or other is None else smallest_apart(_variance(ours), _variance(other))
    return PaperRow(
        source=row.source,
        protocol=_PROTOCOL,
        env=row.env,
        model=row.model,
        category=row.category,
        phase=result.phase,
        split=result.split,
        step=result.step,
        ours=rate,
        accounting=result.accounting,
        theirs=theirs,
        points=points,
        low=100 * gap.low if gap else None,
        high=100 * gap.high if gap else None,
        within_noise=gap.low <= 0 <= gap.high if gap else None,
        smallest_points=100 * smallest if smallest is not None else None,
        note=row.note,
        incomparable=differs,
    )


def _theirs(row: Published) -> Rate:
    if row.of is None or row.count is None:
        return Rate(count=0, denominator=0, value=row.percent / 100, why="the paper gives no number of tasks")
    interval = wilson(row.count, row.of)
    assert interval is not None
    return Rate(count=row.count, denominator=row.of, value=row.count / row.of, low=interval.low, high=interval.high, method=interval.method)


def _variance(known: Estimate) -> float:
    """Sampling variance that the interval's width stands for."""
    return ((known.high - known.low) / (2 * 1.96)) ** 2


def _incomparable(ours: Conditions) -> Iterator[Incomparable]:
    """Where the run departs from what is known of the paper's procedure."""
    yield Incomparable(what="tasks", ours="as frozen", theirs="known by number alone", why=_UNPAIRED)
    if ours.protocol != _PROTOCOL:
        yield Incomparable(what="protocol", ours=ours.protocol or UNKNOWN, theirs=_PROTOCOL, why="the run does not claim the paper's procedure")
    turns, in_paper = TURNS[_PROTOCOL].get(ours.env), _TURNS_IN_PAPER.get(ours.env)
    if ours.horizon != turns or in_paper is not None:
        theirs = f"{turns} in the scripts" + (f", {in_paper} in the paper" if in_paper is not None else "")
        yield Incomparable(
            what="horizon", ours=UNKNOWN if ours.horizon is None else str(ours.horizon), theirs=theirs, why="more turns, more successes"
        )
    if ours.samples != 1:
        yield Incomparable(what="samples", ours=UNKNOWN if ours.samples is None else str(ours.samples), theirs="1", why="a mean of several episodes")
    if ours.temperature not in ("1", NO_MODEL):
        yield Incomparable(what="temperature", ours=ours.temperature or UNKNOWN, theirs="1", why="tokens are drawn in another way")
    if ours.chosen not in ("all", None):
        yield Incomparable(what="chosen tasks", ours=ours.chosen, theirs="all", why="only some of the tasks were run")
    if ours.env in ("sciworld", "babyai"):
        yield Incomparable(
            what="success rule", ours="as frozen", theirs="success in the paper, a reward above 0 in its scripts", why="rewards have degrees here"
        )


def _sizes(result: Result, row: Published) -> Iterator[Incomparable]:
    scheduled = result.accounting.end_to_end.denominator
    if row.of is not None and scheduled != row.of:
        yield Incomparable(what="denominator", ours=f"{scheduled:,} episodes", theirs=f"{row.of:,} tasks", why="not the same number of tasks")
