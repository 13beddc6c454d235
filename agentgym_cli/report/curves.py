"""The curves of a run, drawn with a scale and the horizon's stages under them."""

from __future__ import annotations

from agentgym_cli.report import phrases
from agentgym_cli.report.model import Curve, Learning
from agentgym_cli.report.plot import ASCII_BLOCKS, BLOCKS, marks, plot

_HEIGHT = 6
_LABEL = 9
"""Characters of the scale left of a plot."""


def draw_curves(learning: Learning, *, width: int, ascii_only: bool) -> list[tuple[str, list[str]]]:
    """Titles and lines: success and reward by training step with the stages marked, and the warm start's loss.

    A reward that equals success at every step is not drawn twice.
    """
    blocks = ASCII_BLOCKS if ascii_only else BLOCKS
    curves = {(curve.phase, curve.name): curve for curve in learning.curves if any(value is not None for _, value in curve.points)}
    drawn = []
    loss, success, reward = (curves.get(key) for key in (("warm_start", "loss"), ("train", "success"), ("train", "reward_mean")))
    if loss:
        drawn.append((f"Warm start, loss by update: {_ends(loss)}", _lines(loss, learning, width, blocks, height=2)))
    if success:
        drawn.append((f"Training, success by step: {_ends(success)}", _lines(success, learning, width, blocks, height=_HEIGHT)))
    if reward and not (success and success.points == reward.points):
        drawn.append((f"Training, mean reward by step: {_ends(reward)}", _lines(reward, learning, width, blocks, height=_HEIGHT)))
    return drawn


def _ends(curve: Curve) -> str:
    known = [(step, value) for step, value in curve.points if value is not None]
    (first, begin), (last, end) = known[0], known[-1]
    return f"{phrases.number(begin)} at {first}, {phrases.number(end)} at {last}"


def _lines(curve: Curve, learning: Learning, width: int, blocks: str, height: int) -> list[str]:
    values = [value for _, value in curve.points if value is not None]
    low, high = min(0.0, *values), max(values)
    if curve.name == "success":
        high = 1.0
    room = max(10, width - _LABEL - 1)
    bars = plot(curve.points, width=room, height=height, low=low, high=high, blocks=blocks)
    scale = {0: phrases.number(high), height - 1: phrases.number(low)}
    lines = [f"{scale.get(row, ''):>{_LABEL}} {bar}".rstrip() for row, bar in enumerate(bars)]
    if curve.phase != "train":
        return lines
    stages = [(stage.first_step, f"horizon {stage.horizon}") for stage in learning.stages]
    line = marks(stages, first=curve.points[0][0], last=curve.points[-1][0], width=room)
    return [*lines, f"{'':>{_LABEL}} {line}"] if line else lines
