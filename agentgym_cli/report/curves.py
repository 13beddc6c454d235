"""The curves of a run, drawn with a scale and the horizon's stages under them."""

from __future__ import annotations

from dataclasses import replace

from agentgym_cli.report import phrases
from agentgym_cli.report.model import Axis, Curve, Learning
from agentgym_cli.report.plot import ASCII_BLOCKS, BLOCKS, drawable, marks, plot

_HEIGHT = 6
_LABEL = 9
"""Characters of the scale left of a plot."""


def draw_curves(learning: Learning, *, width: int, ascii_only: bool) -> list[tuple[str, list[str]]]:
    """Titles and lines: success and reward by training step with the stages marked, and the warm start's loss.

    A reward that equals success at every step is not drawn twice.
    """
    by = "step" if learning.axis is None else learning.axis.name
    blocks = ASCII_BLOCKS if ascii_only else BLOCKS
    curves = {(curve.phase, curve.name): curve for curve in learning.curves if any(value is not None for _, value in curve.points)}
    drawn = []
    loss, success, reward = (curves.get(key) for key in (("warm_start", "loss"), ("train", "success"), ("train", "reward_mean")))
    if loss:
        drawn.append((f"Warm start, loss by update: {_ends(loss)}", _lines(loss, learning, width, blocks, height=2)))
    if success:
        drawn.append((f"Training, success by {by}: {_ends(success, learning)}", _lines(success, learning, width, blocks, height=_HEIGHT)))
    if reward and not (success and success.points == reward.points):
        drawn.append((f"Training, mean reward by {by}: {_ends(reward, learning)}", _lines(reward, learning, width, blocks, height=_HEIGHT)))
    return drawn


def _ends(curve: Curve, learning: Learning | None = None) -> str:
    at = dict(learning.axis.at) if learning is not None and learning.axis is not None else {}
    known = [(step, value) for step, value in curve.points if value is not None]
    (first, begin), (last, end) = known[0], known[-1]
    here, there = (phrases.number(at.get(step, step)) for step in (first, last))
    return f"{phrases.number(begin)} at {here}, {phrases.number(end)} at {there}"


def _lines(curve: Curve, learning: Learning, width: int, blocks: str, height: int) -> list[str]:
    curve = replace(curve, points=tuple((step, None if value is None else drawable(value)) for step, value in curve.points))
    values = [value for _, value in curve.points if value is not None]
    low, high = min(0.0, *values), max(values)
    if curve.name == "success":
        high = 1.0
    room = max(10, width - _LABEL - 1)
    axis = learning.axis if curve.phase == "train" else None
    points = curve.points if axis is None else stretched(curve, axis, room)
    bars = plot(points, width=room, height=height, low=low, high=high, blocks=blocks)
    scale = {0: phrases.number(high), height - 1: phrases.number(low)}
    lines = [f"{scale.get(row, ''):>{_LABEL}} {bar}".rstrip() for row, bar in enumerate(bars)]
    if curve.phase != "train":
        return lines
    stages = [(stage.first_step, f"horizon {stage.horizon}") for stage in learning.stages]
    if axis is not None:
        stages = [(_column(starts_at(axis, step), axis, room), label) for step, label in stages]
    line = marks(stages, first=points[0][0], last=points[-1][0], width=room)
    return [*lines, f"{'':>{_LABEL}} {line}"] if line else lines


def stretched(curve: Curve, axis: Axis, columns: int) -> list[tuple[int, float | None]]:
    """A curve by column of an axis from 0: each step reaches from where the step before it ended to where it ended itself."""
    values = dict(curve.points)
    found: list[tuple[int, float | None]] = []
    steps = iter(axis.at)
    step, end = next(steps)
    for column in range(columns):
        while _column(end, axis, columns) <= column and (after := next(steps, None)) is not None:
            step, end = after
        found.append((column, values.get(step)))
    return found


def starts_at(axis: Axis, step: int) -> float:
    """Where a step begins on an axis: where the last one before it ended."""
    return max((value for before, value in axis.at if before < step), default=0.0)


def _column(value: float, axis: Axis, columns: int) -> int:
    return round(columns * value / axis.at[-1][1]) if axis.at[-1][1] else columns
