"""Every online algorithm against an independent implementation in plain Python: the largest differences over many random steps, as a table.

    python -m benchmarks.verification --steps 50

Advantages and losses are compared with ``tests/learn/reference.py``, gradients with central differences of its loss, all in float64.
"""

from __future__ import annotations

import argparse
from functools import reduce

from tests.learn.verification import CASES, Difference, compare

COLUMNS = ("advantage", "loss", "gradient", "critic_loss", "critic_gradient")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="random steps of each case")
    steps: int = parser.parse_args().steps
    print(f"| algorithm | {' | '.join(column.replace('_', ' ') for column in COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
    for name in CASES:
        worst = reduce(Difference.beside, (compare(name, seed) for seed in range(1, steps + 1)))
        print(f"| {name} | {' | '.join(_shown(getattr(worst, column)) for column in COLUMNS)} |", flush=True)


def _shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.1e}"


if __name__ == "__main__":
    main()
