"""The laptop recipe for several seeds, and the table of what reinforcement learning gained on both held-out splits.

    python benchmarks/laptop_seeds.py --seeds 1 2 3 --folder seeds

Runs ``agentgym train`` once for each seed that has no run in the folder, then reads the reports from the store.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RECIPE = "recipes/textcraft_grpo.yaml"
SPLITS = ("unseen_tasks", "unseen_goals")
LONGEST_SECONDS = 3600


def report_of(folder: Path, seed: int) -> dict[str, Any]:
    """The report of a seed's run, which is made when it is not there."""
    home = folder / str(seed)
    home.mkdir(parents=True, exist_ok=True)
    if not any((home / "runs").glob("*")):
        subprocess.run(
            [sys.executable, "-m", "agentgym_cli", "train", RECIPE, "profile=laptop", f"seed={seed}"], cwd=home, check=True, timeout=LONGEST_SECONDS
        )
    (run,) = (home / "runs").glob("*")
    told = subprocess.run(
        [sys.executable, "-m", "agentgym_cli", "report", run.name, "--json"], cwd=home, check=True, timeout=300, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(told.stdout)
    if found["header"]["status"] != "finished":
        raise SystemExit(f"{home}: the run is {found['header']['status']}; agentgym train {run} --resume finishes it")
    return found


def rate(accounting: Mapping[str, Any]) -> str:
    """End-to-end success with its count and 95% interval."""
    found = accounting["end_to_end"]
    low, high = 100 * found["low"], 100 * found["high"]
    return f"{100 * found['value']:.1f}% ({found['count']} of {found['denominator']}; {low:.1f} to {high:.1f})"


def row(report: Mapping[str, Any], split: str) -> str:
    """One line of the table."""
    (found,) = (each for each in report["comparisons"] if each["split"] == split)
    gain = 100 * (found["after"]["end_to_end"]["value"] - found["before"]["end_to_end"]["value"])
    apart = found["after"]["end_to_end"]["low"] > found["before"]["end_to_end"]["high"]
    return f"| {report['header']['seed']} | {rate(found['before'])} | {rate(found['after'])} | {gain:+.1f} | {'no' if apart else 'yes'} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--folder", type=Path, required=True, help="where the runs go")
    given = parser.parse_args()
    reports = [report_of(given.folder, seed) for seed in given.seeds]
    for split in SPLITS:
        sys.stdout.write(f"\n`{split}`\n\n| seed | after the warm start | after GRPO | points | intervals overlap |\n|---|---|---|---|---|\n")
        sys.stdout.write("".join(f"{row(report, split)}\n" for report in reports))


if __name__ == "__main__":
    main()
