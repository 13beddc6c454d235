"""The two averages over scenarios as rows of a table, each under its name."""

from __future__ import annotations

from collections.abc import Iterator

from agentgym_cli.report import phrases
from agentgym_cli.report.figures import Averages, Macro


def averaged(found: Averages) -> Iterator[tuple[str, ...]]:
    """Which average, then end to end, conditional and infra."""
    pooled = found.pooled
    rates = (pooled.end_to_end, pooled.conditional, pooled.infra_share)
    yield ("pooled", *(f"{phrases.percent(rate.value)}\n{phrases.interval(rate)}" for rate in rates))
    macros = (found.macro_end_to_end, found.macro_conditional, found.macro_infra_share)
    yield (f"macro over {len(found.macro_end_to_end.over)} {found.scenarios}", *map(_macro, macros))


def _macro(macro: Macro) -> str:
    without = f"\nwithout {len(macro.without)} that have no data" if macro.without else ""
    return f"{phrases.percent(macro.value)}\n{phrases.bounds(macro.low, macro.high)}{without}"
