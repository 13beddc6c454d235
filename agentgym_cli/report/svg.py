"""Figures as inline SVG: bars of what became of what was scheduled, and curves over shaded stages. Colours are classes of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import floor, log10

from agentgym_cli.report import phrases
from agentgym_cli.report.blocks import Bars, Figure, Gap, Gaps, Line
from agentgym_cli.report.html_text import Html, element
from agentgym_cli.report.plot import drawable

OUTCOMES = ("success", "failure", "infra error", "missing")
"""In the order of the bars; the classes are ``o0`` to ``o3``."""
_WIDTH = 760
_LABEL, _RIGHT = 252, 60
_ROW, _BAR = 34, 20
_LONGEST_LABEL = 34
_LONGEST_TICK = 7
_LEFT, _TOP, _HEIGHT, _BOTTOM = 56, 22, 190, 40
_LEAST_FOR_TEXT = 34.0
"""Pixels of a bar in which a number has room."""


def figure(block: Figure, number: int) -> Html:
    """A drawing with a title and a description of what can be seen, ``number`` unique in its page."""
    if isinstance(block, Gaps):
        return _gaps(block, number)
    return _bars(block, number) if isinstance(block, Bars) else _line(block, number)


def _frame(number: int, height: float, title: str, description: str, parts: Sequence[Html]) -> Html:
    names = (f"t{number}", f"d{number}")
    said = (element("title", title, attributes={"id": names[0]}), element("desc", description, attributes={"id": names[1]}))
    attributes = {"viewBox": f"0 0 {_WIDTH} {height:g}", "role": "img", "aria-labelledby": " ".join(names)}
    return element("svg", *said, *parts, attributes=attributes)


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "tick") -> Html:
    return element("text", words, attributes={"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, "class": kind})


def _bars(block: Bars, number: int) -> Html:
    parts = [part for row, (label, counts) in enumerate(block.rows) for part in _bar(row, label, counts)]
    said = "; ".join(
        f"{label}: " + ", ".join(f"{count:,} {name}" for name, count in zip(OUTCOMES, counts, strict=True)) + f" of {sum(counts):,} scheduled"
        for label, counts in block.rows
    )
    return _frame(number, _ROW * len(block.rows) + 4, block.title, said, parts)


def _bar(row: int, label: str, counts: Sequence[int]) -> Iterator[Html]:
    total, top = sum(counts), row * _ROW + 6.0
    short = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
    yield _text(_LABEL - 10, top + 15, short, "end", "label")
    x, room = float(_LABEL), _WIDTH - _LABEL - _RIGHT
    for place, count in enumerate(counts):
        width = room * count / total if total else 0.0
        if count:
            shape = {"x": f"{x:.2f}", "y": f"{top:g}", "width": f"{max(width, 1.0):.2f}", "height": _BAR, "class": f"o{place}"}
            yield element("rect", element("title", f"{OUTCOMES[place]}: {count:,} of {total:,}"), attributes=shape)
        if count and width >= _LEAST_FOR_TEXT:
            yield _text(x + width / 2, top + 14.5, f"{count:,}", "middle", f"on o{place}t")
        x += width
    yield _text(_WIDTH - _RIGHT + 8, top + 15, f"{total:,}")


def _gaps(block: Gaps, number: int) -> Html:
    known = [0.0, *(value for row in block.rows for value in (row.mean, row.low, row.high) if value is not None)]
    low, high = min(known), max(known)
    room = (_WIDTH - _LABEL - _RIGHT) / ((high - low) or 1.0)
    zero = _LABEL - low * room
    height = _ROW * len(block.rows) + 24
    marks = {"x1": f"{zero:.2f}", "x2": f"{zero:.2f}", "y1": 0, "y2": height - 20, "class": "grid"}
    parts = [element("line", attributes=marks), _text(zero, height - 4, "0", "middle")]
    parts += [part for place, row in enumerate(block.rows) for part in _gap(place, row, zero, room)]
    said = "; ".join(f"{row.label}: {gap_words(row)}" for row in block.rows)
    return _frame(number, height, block.title, said, parts)


def _gap(place: int, row: Gap, zero: float, room: float) -> Iterator[Html]:
    y = place * _ROW + 16.0
    short = row.label if len(row.label) <= _LONGEST_LABEL else row.label[: _LONGEST_LABEL - 1] + "…"
    yield _text(_LABEL - 10, y + 5, short, "end", "label")
    if row.low is not None and row.high is not None:
        yield element("polyline", attributes={"points": f"{zero + row.low * room:.2f},{y:g} {zero + row.high * room:.2f},{y:g}", "class": "curve"})
    if row.mean is None:
        yield _text(zero + 8, y + 5, phrases.NO_DATA)
    else:
        mark = {"cx": f"{zero + row.mean * room:.2f}", "cy": f"{y:g}", "r": 4, "class": "dot"}
        yield element("circle", element("title", f"{row.label}: {gap_words(row)}"), attributes=mark)
        yield _text(_WIDTH - _RIGHT + 8, y + 5, f"{row.mean:+.3g}")


def gap_words(row: Gap) -> str:
    """``+40 points, 95% +4.1 to +75.9``, or ``n/a``."""
    return phrases.NO_DATA if row.mean is None else f"{row.mean:+.3g} points, 95% {phrases.signed(row.low, row.high)}"


def _line(block: Line, number: int) -> Html:
    said_of = [(x, value) for x, value in block.points if value is not None]
    block = replace(block, points=tuple((x, None if value is None else drawable(value)) for x, value in block.points))
    known = [(x, value) for x, value in block.points if value is not None]
    low = min(0.0, *(value for _, value in known))
    high = block.top if block.top is not None else max(value for _, value in known)
    high = high if high - low > _NARROWEST else low + max(1.0, abs(low))
    left, right = block.points[0][0], block.points[-1][0]
    right = right if right > left else left + 1.0
    scale = _Scale(left=left, right=right, low=low, high=high)
    parts = [*_shades(block, scale), *_grid(block, scale), *_curve(block, scale)]
    (first, begin), (last, end) = said_of[0], said_of[-1]
    stages = "".join(f"; {label} from {block.x} {phrases.number(begins)}" for begins, _, label in block.shades)
    said = f"{phrases.number(begin)} at {block.x} {phrases.number(first)}, {phrases.number(end)} at {block.x} {phrases.number(last)}{stages}"
    return _frame(number, _TOP + _HEIGHT + _BOTTOM, block.title, said, parts)


_NARROWEST = 1e-300
"""A range that is no wider has no round numbers inside."""


class _Scale:
    """From values to pixels."""

    def __init__(self, *, left: float, right: float, low: float, high: float) -> None:
        self.left, self.right, self.low, self.high = left, right, low, high

    def x(self, value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 14) * (value - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        return _TOP + _HEIGHT * (1 - (value - self.low) / (self.high - self.low))


def _shades(block: Line, scale: _Scale) -> Iterator[Html]:
    for place, (begins, ends, label) in enumerate(block.shades):
        x, width = scale.x(begins), max(scale.x(ends) - scale.x(begins), 1.0)
        shape = {"x": f"{x:.2f}", "y": _TOP, "width": f"{width:.2f}", "height": _HEIGHT, "class": f"shade{place % 2}"}
        yield element("rect", element("title", label), attributes=shape)
        if width > 6.5 * len(label):
            yield _text(x + 4, _TOP - 7, label)


def _grid(block: Line, scale: _Scale) -> Iterator[Html]:
    for value in ticks(scale.low, scale.high, 4):
        y = scale.y(value)
        yield element("line", attributes={"x1": _LEFT, "x2": _WIDTH - 14, "y1": f"{y:.2f}", "y2": f"{y:.2f}", "class": "grid"})
        yield _text(_LEFT - 8, y + 4, _tick(value), "end")
    for value in ticks(scale.left, scale.right, 8):
        yield _text(scale.x(value), _TOP + _HEIGHT + 18, _tick(value), "middle")
    yield _text((_LEFT + _WIDTH) / 2, _TOP + _HEIGHT + 36, block.x, "middle")


def _tick(value: float) -> str:
    """A number of an axis, as a power of ten where it would be cut off at the edge."""
    words = phrases.number(value)
    return words if len(words) <= _LONGEST_TICK else re.sub(r"e\+?(-?)0*", r"e\1", f"{value:.4g}")


def _curve(block: Line, scale: _Scale) -> Iterator[Html]:
    for known, group in groupby(block.points, key=lambda point: point[1] is not None):
        points = [(scale.x(x), scale.y(value)) for x, value in group if value is not None]
        if known and len(points) == 1:
            yield element("circle", attributes={"cx": f"{points[0][0]:.2f}", "cy": f"{points[0][1]:.2f}", "r": 3, "class": "dot"})
        elif known:
            yield element("polyline", attributes={"points": " ".join(f"{x:.2f},{y:.2f}" for x, y in points), "class": "curve"})


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from ``low`` to ``high``, about ``most`` of them: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough * 0.999)
    first = floor(low / step + 0.999)
    return [value * step for value in range(first, floor(high / step + 0.001) + 1)]
