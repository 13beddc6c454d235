"""What verl measures as numbers that can be written down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def numbers(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Metrics as plain numbers; one that is not finite is None, what is no number is left out."""
    found: dict[str, float | None] = {}
    for name, value in metrics.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        found[name] = number if math.isfinite(number) else None
    return found
