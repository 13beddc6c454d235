"""What a long journal costs the run that goes on with it: reading a million lines, the memory that stays, and appending behind them.

    python -m benchmarks.long_history --lines 1000000

Writes the journal of an evaluation whose episodes have three lines each (scheduled, an attempt of ten turns, an outcome) into a temporary folder,
about 5 KB an episode, then reads it as ``--resume`` does. Times are CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from agentgym_cli.store.journal import Journal, read_journal
from agentgym_cli.verbs.history import Past
from tests.store.builders import make_attempt, make_metric, make_outcome, make_run, make_scheduled, make_segment

LINES_EACH = 3
TURNS = 10
APPENDED = 10_000


def write(folder: Path, episodes: int) -> None:
    """The journal of a finished evaluation."""
    pattern = make_attempt(make_scheduled(0), turns=TURNS)
    with Journal(folder, 1) as journal:
        journal.append(make_run())
        journal.append(make_segment(1))
        for number in range(episodes):
            told = make_scheduled(number)
            attempt = replace(pattern, episode=told.episode)
            for record in (told, attempt, make_outcome(attempt)):
                journal.append(record)


def resident() -> int:
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def measure(folder: Path, episodes: int) -> None:
    """Print one row."""
    gc.collect()
    memory, cpu = resident(), time.process_time()
    history = Past(read_journal(folder)).history(0)
    cpu, memory = time.process_time() - cpu, resident() - memory
    assert len(history.outcomes) == episodes
    began = time.process_time()
    with Journal(folder, 2) as journal:
        for number in range(APPENDED):
            journal.append(make_metric("loss", 1.0, step=number, segment=2))
    appending = time.process_time() - began
    size = sum(path.stat().st_size for path in folder.glob("journal/*")) / 1e6
    lines = LINES_EACH * episodes
    sys.stdout.write(f"| {lines:,} | {size:,.0f} | {cpu:.1f} | {1e6 * cpu / lines:.0f} | {memory / 1e6:,.0f} | {1e6 * appending / APPENDED:.0f} |\n")
    sys.stdout.flush()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options = parser.parse_args()
    sys.stdout.write("| lines | MB | CPU s to resume | µs a line | MB that stay | µs an append behind them |\n|---|---|---|---|---|---|\n")
    for lines in options.lines:
        with tempfile.TemporaryDirectory() as name:
            episodes = lines // LINES_EACH
            write(Path(name), episodes)
            measure(Path(name), episodes)


if __name__ == "__main__":
    main()
