"""Progress on stderr: a live line on a terminal, plain lines when piped. Knows no run."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.text import Text

if TYPE_CHECKING:
    from rich.live import Live

    from agentgym_cli.verbs.progress import Cell

_PLAIN_LINE_SECONDS = 5.0
"""Least time between two progress lines when stderr is not a terminal."""
_PLAIN_WIDTH = 80
"""Characters of a line when stderr is not a terminal."""
_TELLING_SHARE = 0.05
"""Of the work of a segment, from which on its pace says how long the rest takes."""


class StderrProgress:
    """Implements verbs.progress.Progress on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._phase = ""
        self._total = 0
        self._unit = ""
        self._before = 0
        self._at_once = 1
        self._began = 0.0
        self._printed = 0.0

    def note(self, label: str, text: str) -> None:
        """Print one fact, label first."""
        self._console.print(f"[bold]{escape(label):<12}[/bold]{escape(self._wrapped(text, after=12, indent=12))}", highlight=False, soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print one warning."""
        self._console.print(f"[yellow]warning:[/yellow] {escape(self._wrapped(text, after=9, indent=0))}", highlight=False, soft_wrap=True)

    def _wrapped(self, text: str, *, after: int, indent: int) -> str:
        """What stands ``after`` so many characters, in lines no wider than the console but for words that are: a path can be copied only whole."""
        fill = partial(textwrap.fill, width=self._console.width, break_long_words=False, break_on_hyphens=False, subsequent_indent=" " * indent)
        first, *rest = text.split("\n")
        return "\n".join([fill(first, initial_indent=" " * after)[after:], *(fill(line, initial_indent=" " * indent) for line in rest)])

    def begin(self, phase: str, total: int, unit: str, done: int = 0, at_once: int = 1) -> None:
        """Open a phase; on a terminal its line is rewritten in place."""
        from rich.live import Live

        self.end()
        self._phase, self._total, self._unit, self._before, self._at_once = phase, total, unit, done, at_once
        self._began = time.monotonic()
        self._printed = 0.0
        if self._console.is_terminal:
            self._live = Live(Text(f"{phase} ..."), console=self._console, refresh_per_second=4, transient=False)
            self._live.start()

    def advance(self, done: int, cells: Mapping[str, Cell]) -> None:
        """Show how far the phase is and its cells."""
        now = time.monotonic()
        line = self._line(done, cells, now)
        if self._live is not None:
            self._live.update(Text(line, overflow="fold"))
        elif done >= self._total or now - self._printed >= _PLAIN_LINE_SECONDS:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            self._printed = now

    def end(self) -> None:
        """Leave the last line on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _line(self, done: int, cells: Mapping[str, Cell], now: float) -> str:
        elapsed = now - self._began
        left = seconds_left(done, self._total, before=self._before, at_once=self._at_once, elapsed=elapsed)
        times = _clock(elapsed) if left is None else f"{_clock(elapsed)} +{_clock(left)} left"
        return _fitted(
            self._phase,
            [f"{self._unit} {done}/{self._total}", *(f"{name} {_cell(value)}" for name, value in cells.items()), times],
            self._console.width,
        )


def seconds_left(done: int, total: int, *, before: int, at_once: int, elapsed: float) -> float | None:
    """Seconds until ``total`` at the pace of what this segment has done in ``elapsed``; None where that says nothing, and when all is done.

    What ends first is what is short: until as many have ended as are in flight, and a share of what there was to do, their pace is no other's.
    """
    here = done - before
    if done >= total or here < max(1, at_once, _TELLING_SHARE * (total - before)):
        return None
    return elapsed / here * (total - done)


def _fitted(phase: str, cells: Sequence[str], width: int) -> str:
    """One line where it fits, close together if need be; else several, broken between cells only."""
    for wide in (f"{phase:<12}" + "  ".join(cells), f"{phase} " + " ".join(cells)):
        if len(wide) <= width:
            return wide
    lines = [f"{phase:<12}".removesuffix("  ")]
    for cell in cells:
        if len(lines[-1]) + 2 + len(cell) > width:
            lines.append(" " * 10)
        lines[-1] += f"  {cell}"
    return "\n".join(lines)


def stderr_progress() -> StderrProgress:
    """Progress on this process's stderr; honours NO_COLOR and pipes."""
    return StderrProgress(Console(file=sys.stderr, width=None if sys.stderr.isatty() else _PLAIN_WIDTH))


def _cell(value: Cell) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
