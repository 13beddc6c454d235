"""What a diagnosis looks at: the rows of a run that say how it went rather than what came of it. Knows no thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from agentgym_cli.store.diagnosis_rows import AgeRow, CutRow, GapRow, LoopRow, VerdictRow
from agentgym_cli.store.rows import CountsRow, MetricRow
from agentgym_cli.store.task_rows import LatencyRow, SpendingRow

WATCHED = (
    "approx_kl",
    "clip_fraction",
    "entropy",
    "gradient_norm",
    "groups_dropped",
    "groups_planned",
    "groups_zero_variance",
    "logp_difference_max",
)
"""Metrics of training that rules look at, step by step."""

Series = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Everything that rules can ask."""

    metrics: Mapping[str, Series]
    """Of training: values by step; steps without a value are left out."""
    counts: Sequence[CountsRow]
    cuts: Sequence[CutRow]
    verdicts: Sequence[VerdictRow]
    ages: Sequence[AgeRow]
    loops: LoopRow
    gaps: Sequence[GapRow]
    latencies: Sequence[LatencyRow]
    spending: SpendingRow


def series(rows: Sequence[MetricRow]) -> Mapping[str, Series]:
    """Metrics of training by name, from rows in the order of name and step."""
    train = [row for row in rows if row.phase == "train"]
    by_name = groupby(train, key=lambda row: row.name)
    return {name: [(row.step, row.value) for row in group if row.value is not None] for name, group in by_name}


def thirds(values: Series) -> tuple[Series, Series] | None:
    """The first and the last third of a series; None where they would have fewer than three steps each."""
    size = len(values) // 3
    return (values[:size], values[-size:]) if size >= 3 else None


def mean(values: Series) -> float:
    """Mean over steps; at least one."""
    return sum(value for _, value in values) / len(values)
