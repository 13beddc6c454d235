"""Kills an evaluation and a training run with SIGKILL again and again, resumes them, and compares the results with uninterrupted runs.

    python -m benchmarks.kill_drill --kills 30

Moments are drawn from a fixed seed: in the middle of a line of the journal, before or behind it, around and inside loads into the store, renames
and syncs of checkpoints, and at any time on the clock. Ends with a table of where the kills fell; a run that lost something, counted something
twice or ended otherwise raises AssertionError.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.drill.kills import drill
from tests.drill.plans import EVALUATION, TRAINING


def main() -> None:
    """Print both summaries."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for drilled in (EVALUATION, TRAINING):
        with tempfile.TemporaryDirectory() as name:
            began = time.monotonic()
            summary = drill(drilled, Path(name), kills=options.kills, seed=options.seed)
            sys.stdout.write(f"agentgym {' '.join((drilled.verb, *drilled.words))}\n\n{summary.table()}\n{time.monotonic() - began:.0f} s\n\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
