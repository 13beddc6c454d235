"""Several comparisons at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """p-values adjusted so that the chance of any false claim among them stays below the level of each (Holm 1979).

    None stays None and counts as no comparison.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    worst = 0.0
    for rank, (p, place) in enumerate(known):
        worst = max(worst, min(1.0, (len(known) - rank) * p))
        adjusted[place] = worst
    return tuple(adjusted)
