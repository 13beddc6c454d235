"""How long a schedule of served episodes takes when step latencies have a heavy tail, beside a loop in lock step.

    python -m benchmarks.no_barrier

Latencies are lognormal (median 20 ms, 99th percentile 2 s) from fixed seeds, the clock is virtual, so the table is the same on every machine.
"Lock step" is how AgentGym's own loop plays: all worlds step, everybody waits for the slowest, then the model is asked for all of them.
"""

from __future__ import annotations

import argparse
import sys

from tests.episode.heavy_tail import in_lock_step, latencies, without_barrier

HEADER = (
    "| seed | mean episode s | longest episode s | this engine s | over the longest | lock step s | over the longest |\n|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    sys.stdout.write(f"{options.episodes} episodes of {options.turns} turns\n\n{HEADER}\n")
    for seed in options.seeds:
        steps = latencies(options.episodes, options.turns, seed=seed)
        ours, theirs = without_barrier(steps), in_lock_step(steps)
        sys.stdout.write(
            f"| {seed} | {ours.mean:.2f} | {ours.longest:.1f} | {ours.whole:.1f} | {ours.whole / ours.longest:.3f} "
            f"| {theirs.whole:.1f} | {theirs.whole / theirs.longest:.2f} |\n"
        )


if __name__ == "__main__":
    main()
