"""The fault drill at any size: ``python -m benchmarks.fault_drill [EPISODES] [SEED]`` from the root of the checkout.

Prints what the proxies injected beside what the store recorded. The test of the same name runs 2,000 episodes in CI.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.drill.faults import fault_drill


def main(words: list[str]) -> None:
    """Run the drill and print its table."""
    episodes, seed = ([int(word) for word in words] + [2_000, 1][len(words) :])[:2]
    with tempfile.TemporaryDirectory() as folder:
        print(fault_drill(Path(folder), episodes=episodes, seed=seed).table())


if __name__ == "__main__":
    main(sys.argv[1:])
