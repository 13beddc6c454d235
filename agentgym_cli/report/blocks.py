"""What sections of a report are made of, whatever form it takes: all texts may be foreign and are made harmless where they are shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names and values, one pair a line."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table; a cell can have several lines."""

    caption: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marks: tuple[tuple[str, ...], ...] = ()
    """How cells are tinted where there is colour: ``good``, ``bad``, ``weak`` or '', of the same shape as ``rows`` or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prose:
    """A paragraph."""

    text: str
    tone: str = "plain"
    """``plain``, ``good`` or ``warning``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A query or a command."""

    what: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A figure: what became of everything that was scheduled, a bar for each part. Forms without figures leave it out."""

    title: str
    rows: tuple[tuple[str, tuple[int, int, int, int]], ...]
    """Part, and its successes, failures, infra errors and missing episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A figure: one curve with the horizon's stages. Forms without figures leave it out."""

    title: str
    x: str
    """``step``, ``turns``, ``tokens`` or ``seconds``."""
    points: tuple[tuple[float, float | None], ...]
    shades: tuple[tuple[float, float, str], ...]
    """From, to, label."""
    top: float | None = None
    """Upper end of the scale; the highest value otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One difference, in points; None where there is none, or no interval."""

    label: str
    mean: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """A figure: differences with their 95% intervals about zero. Forms without figures leave it out."""

    title: str
    rows: tuple[Gap, ...]


Figure = Bars | Line | Gaps
Block = Facts | Grid | Prose | Code | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]
