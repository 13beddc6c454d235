"""How often the intervals and tests of reports are right, as tables: by enumeration where that can be, else over simulated data sets.

python -m benchmarks.coverage
"""

from __future__ import annotations

from tests.report.coverage import (
    DATA_SETS,
    SHARES,
    bootstrapped,
    clustered,
    covered,
    false_positives,
    plain_t,
    successes,
    wilson_coverage,
)

SHOWN = (0.0, 0.3, 0.9)
"""Correlations of a task's episodes; the tests try more."""
BOOTSTRAPPED = 100
"""Data sets that are drawn again, 4,000 times each."""
SIZES = (5, 10, 20, 50, 100, 200, 400)
TASKS = (20, 30, 50, 100)
SAMPLES = (2, 4, 8)


def main() -> None:
    """Print the tables."""
    print("Wilson's interval, by enumeration over p: mean, least and most coverage")
    for size in SIZES:
        shares = wilson_coverage(size)
        print(f"  n {size:4}   mean {shares.mean():6.1%}   {shares.min():6.1%} to {shares.max():6.1%}")
    print(f"\nIntervals over tasks, {DATA_SETS:,} simulated data sets each: least and most coverage over p of {SHARES[0]} to {SHARES[-1]}")
    print("  tasks samples alike   report              mean +- t * error   cluster bootstrap (" + f"{BOOTSTRAPPED} data sets)")
    for tasks in TASKS:
        for samples in SAMPLES:
            for alike in SHOWN:
                _print_clustered(tasks, samples, alike)
    print(f"\nPaired test of two equal runs, {DATA_SETS:,} pairs each: false positives at the 5% level, most over p of {SHARES[0]} to {SHARES[-1]}")
    for tasks in (20, 50, 100):
        for samples in (1, 4):
            rates = [false_positives(tasks, samples, share, alike, seed) for seed, share in enumerate(SHARES) for alike in (0.0, 0.5)]
            name = "exact McNemar" if samples == 1 else "permutation within tasks"
            print(f"  tasks {tasks:4}   samples {samples}   {max(rates):5.1%}   {name}")


def _print_clustered(tasks: int, samples: int, alike: float) -> None:
    data = {share: successes(tasks, samples, share, alike, seed)[0] for seed, share in enumerate(SHARES)}
    report = [covered(clustered(x, samples), share) for share, x in data.items()]
    textbook = [plain_t(x, samples, share) for share, x in data.items()]
    boot = [bootstrapped(x, samples, share, BOOTSTRAPPED) for share, x in data.items()]
    spans = [f"{min(each):6.1%} to {max(each):6.1%}" for each in (report, textbook, boot)]
    print(f"  {tasks:5} {samples:7} {alike:5}   {'    '.join(spans)}")


if __name__ == "__main__":
    main()
