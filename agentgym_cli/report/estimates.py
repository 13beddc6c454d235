"""What was estimated before a run, beside what was measured of it: memory, times, turns, tokens. Judges nothing."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym_cli.report import phrases
from agentgym_cli.report.blocks import Block, Grid, Prose, Section
from agentgym_cli.report.model import Report

PHASE = "estimate"
"""Under which ``train`` keeps its preflight's numbers in table ``metrics``."""
_ERROR = "Estimates state an error of 20% for memory and a factor of 2 for times; docs/capacity.md says where both come from."


def estimates(report: Report) -> list[Section]:
    """A row for each estimated number; nothing for a run that kept none."""
    kept = {metric.name.removeprefix("time/"): metric.last for metric in report.learning.metrics if metric.phase == PHASE}
    if not kept:
        return []
    rows = tuple(_row(name, kept.get(key), measured) for name, key, measured in _pairs(report, kept))
    grid = Grid(caption="The estimate of the preflight and what came of it", names=("", "estimated", "measured", "ratio"), rows=rows)
    blocks: list[Block] = [grid, Prose(text=_ERROR)]
    return [Section(title="Estimate and reality", blocks=tuple(blocks))]


def _pairs(report: Report, kept: Mapping[str, float | None]) -> list[tuple[str, str, float | None]]:
    """Name as it is shown, name as it is kept, and what was measured of it."""
    trained = {metric.name: metric.mean for metric in report.learning.metrics if metric.phase == "train"}
    whole, play = trained.get("time/step_seconds"), trained.get("time/play_seconds")
    spent = report.spending
    return [
        ("most memory, MiB", "peak_bytes", kept.get("measured_peak_bytes")),
        ("memory there, MiB", "memory_bytes", None),
        ("a step, seconds", "step_seconds", whole),
        ("  its episodes", "play_seconds", play),
        ("  its update", "update_seconds", None if whole is None or play is None else whole - play),
        ("the run, seconds", "run_seconds", spent.clock_seconds.value if report.standing.finished else None),
        ("turns of an episode", "turns_mean", trained.get("turns_mean")),
        ("tokens sampled", "tokens_sampled", spent.tokens_sampled.value if report.standing.finished else None),
    ]


def _row(name: str, estimated: float | None, measured: float | None) -> tuple[str, str, str, str]:
    scale = 1024.0**2 if name.endswith("MiB") else 1.0
    ratio = phrases.NO_DATA if not estimated or measured is None else f"{measured / estimated:.2f}"
    return (name.strip(), _scaled(estimated, scale), _scaled(measured, scale), ratio)


def _scaled(value: float | None, scale: float) -> str:
    return phrases.number(None if value is None else value / scale)
