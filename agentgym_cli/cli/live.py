"""Progress on stderr: a live line on a terminal, plain lines when piped. Knows no run."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.text import Text

if TYPE_CHECKING:
    from rich.live import Live

    from agentgym_cli.verbs.progress import Cell

_PLAIN_LINE_SECONDS = 5.0
"""Least time between two progress lines when stderr is not a terminal."""


class StderrProgress:
    """Implements verbs.progress.Progress on a console."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._phase = ""
        self._total = 0
        self._unit = ""
        self._before = 0
        self._began = 0.0
        self._printed = 0.0

    def note(self, label: str, text: str) -> None:
        """Print one fact, label first."""
        self._console.print(f"[bold]{escape(label):<12}[/bold]{escape(text)}", highlight=False)

    def warn(self, text: str) -> None:
        """Print one warning."""
        self._console.print(f"[yellow]warning:[/yellow] {escape(text)}", highlight=False)

    def begin(self, phase: str, total: int, unit: str, done: int = 0) -> None:
        """Open a phase; on a terminal its line is rewritten in place."""
        from rich.live import Live

        self.end()
        self._phase, self._total, self._unit, self._before = phase, total, unit, done
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
        left = seconds_left(done, self._total, before=self._before, elapsed=elapsed)
        shown = "  ".join(f"{name} {_cell(value)}" for name, value in cells.items())
        return f"{self._phase:<12}{self._unit} {done}/{self._total}  {shown}  {_clock(elapsed)} +{_clock(left)} left"


def seconds_left(done: int, total: int, *, before: int, elapsed: float) -> float | None:
    """Seconds until ``total`` at the pace of what this segment has done in ``elapsed``; None before it has done anything."""
    here = done - before
    return elapsed / here * (total - done) if here > 0 else None


def stderr_progress() -> StderrProgress:
    """Progress on this process's stderr; honours NO_COLOR and pipes."""
    return StderrProgress(Console(file=sys.stderr, width=None if sys.stderr.isatty() else 110))


def _cell(value: Cell) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def _clock(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
