"""Sizes, times and counts of a capacity answer in words of a few characters, whatever their size."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from agentgym_cli.report.text import for_terminal

LONGEST = 600
"""Most characters of a text that is shown."""
_BYTES = (("PiB", 1024.0**5), ("TiB", 1024.0**4), ("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0))
_COUNTS = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


def foreign(text: str, limit: int = LONGEST) -> str:
    """Text of files and stores, made harmless: no markup, no control characters."""
    return escape(for_terminal(text, limit=limit))


def count(number: float, *, exact: float = 1e3) -> str:
    """A count in three digits or so; below ``exact`` all of them."""
    return f"{number:,.0f}" if number < exact else _in_units(number, _COUNTS, "")


def size_of(size: int) -> str:
    """Bytes in the unit that fits them."""
    return f"{size} B" if size < 1024 else _in_units(size, _BYTES, " ")


def _in_units(number: float, units: Sequence[tuple[str, float]], between: str) -> str:
    unit, scale = next((unit for unit in units if number >= unit[1]), units[-1])
    value = number / scale
    return f"{value:,.1f}{between}{unit}" if value < 1e5 else f"{value:.1e}{between}{unit}"


def seconds(value: float) -> str:
    """Seconds as short as they are told apart."""
    if value >= 1e6:
        return f"{value:.1e} s"
    return f"{value:,.0f} s" if value >= 100 else f"{value:.1f} s" if value >= 1 else f"{value:.2f} s"
