"""What metrics say of training: curves, horizon stages, groups. Names of metrics that it does not know are summed up like any other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from agentgym_cli.report.accounting import share
from agentgym_cli.report.model import Axis, Curve, Groups, Learning, Metric, Stage
from agentgym_cli.store.rows import MetricRow, MetricTotals

CURVES = ("success", "reward_mean", "horizon", "loss")
"""Metrics whose steps a report keeps; of all others it keeps a summary."""


def assemble_learning(curve: Sequence[MetricRow], totals: Sequence[MetricTotals], axis: Axis | None = None) -> Learning:
    """Curves and summaries of a run, empty for one that never trained; ``axis`` is what curves are drawn against, steps otherwise."""
    curves = tuple(
        Curve(phase=phase, name=name, points=tuple((row.step, row.value) for row in rows))
        for (phase, name), rows in groupby(curve, key=lambda row: (row.phase, row.name))
    )
    horizon = next((curve.points for curve in curves if (curve.phase, curve.name) == ("train", "horizon")), ())
    return Learning(curves=curves, axis=axis, stages=_stages(horizon), groups=_groups(totals), metrics=tuple(map(_metric, totals)))


def _stages(horizon: Sequence[tuple[int, float | None]]) -> tuple[Stage, ...]:
    known = [(step, int(value)) for step, value in horizon if value is not None]
    spans = [(turns, [step for step, _ in rows]) for turns, rows in groupby(known, key=lambda pair: pair[1])]
    return tuple(Stage(horizon=turns, first_step=steps[0], last_step=steps[-1]) for turns, steps in spans)


def _groups(totals: Sequence[MetricTotals]) -> Groups | None:
    sums = {row.name: round(row.total) for row in totals if row.phase == "train" and row.name.startswith("groups_") and row.total is not None}
    if "groups_planned" not in sums:
        return None
    planned = sums["groups_planned"]
    return Groups(
        planned=planned,
        dropped=share(sums.get("groups_dropped", 0), planned),
        zero_variance=share(sums["groups_zero_variance"], planned) if "groups_zero_variance" in sums else share(0, 0, "groups that are baselines"),
    )


def _metric(row: MetricTotals) -> Metric:
    return Metric(phase=row.phase, name=row.name, steps=row.steps, mean=row.mean, least=row.least, most=row.most, first=row.first, last=row.last)
