"""A curve drawn with characters: bars of eighths, or of halves where only ASCII is safe. Knows no metrics."""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .#"

_LARGEST = 1e300
"""Values beyond it are drawn as it, so that a range of two of them is a number."""

Points = Sequence[tuple[int, float | None]]


def drawable(value: float) -> float:
    """The value, or the nearest one that a scale can hold."""
    return max(-_LARGEST, min(_LARGEST, value))


def plot(points: Points, *, width: int, height: int, low: float, high: float, blocks: str = BLOCKS) -> list[str]:
    """``height`` lines of at most ``width`` characters, one column per step or the mean of several.

    A column without data is blank; one at or below ``low`` shows the least block, so that zero and nothing differ.
    """
    eighths = len(blocks) - 1
    levels = [None if value is None else _level(value, low, high, height * eighths) for value in columns(points, width)]
    return ["".join(_cell(level, row, eighths, blocks) for level in levels) for row in range(height - 1, -1, -1)]


def _level(value: float, low: float, high: float, most: int) -> int:
    share = (value - low) / (high - low) if high > low else 1.0
    return max(1, min(most, round(share * most)))


def _cell(level: int | None, row: int, eighths: int, blocks: str) -> str:
    return " " if level is None else blocks[max(0, min(eighths, level - row * eighths))]


def columns(points: Points, width: int) -> list[float | None]:
    """The values of equally many steps per column, averaged; few steps are widened to fill the space."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    steps = last - first + 1
    count = min(width, steps)
    sums: list[list[float]] = [[] for _ in range(count)]
    for step, value in points:
        if value is not None:
            sums[(step - first) * count // steps].append(value)
    means = [sum(value / len(values) for value in values) if values else None for values in sums]
    return [mean for mean in means for _ in range(max(1, width // steps))]


def marks(stages: Sequence[tuple[int, str]], *, first: int, last: int, width: int) -> str:
    """A line under a plot of the same width: ``|label`` where each stage begins; a label without room is left out."""
    steps = last - first + 1
    count = min(width, steps)
    widened = max(1, width // steps)
    line = [" "] * (count * widened)
    free = 0
    for step, label in stages:
        at = (step - first) * count // steps * widened
        text = f"|{label}"
        if free <= at < len(line):
            text = text if at + len(text) <= len(line) else "|"
            line[at : at + len(text)] = text
            free = at + len(text)
    return "".join(line).rstrip()
