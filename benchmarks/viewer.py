"""How fast the viewer opens a run of many episodes: a store is made, the pages are asked for over HTTP, and its memory is read.

    python -m benchmarks.viewer --episodes 100000 --folder /tmp/viewer-benchmark

Every page is asked for twice; the first time is what a person waits after the store has changed. One episode has a thousand turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from agentgym_cli.store.codec import encode
from agentgym_cli.store.loader import load
from benchmarks.store import RUN, write_journal
from tests.store.builders import make_attempt, make_outcome, make_scheduled

LONG = "eval/test/0/textcraft_900000/0"
PAGES = (
    ("runs", ""),
    ("one run", "run?run={run}"),
    ("episodes", "episodes?run={run}"),
    ("episodes, failures by turns", "episodes?run={run}&outcome=failure&sort=turns&order=down"),
    ("episodes, the page behind the 50,000th", "episodes?run={run}&after=eval/test/0/textcraft_2500/0"),
    ("episodes, text in any turn", "episodes?run={run}&text=oak+log"),
    ("one episode", "episode?run={run}&episode=eval/test/0/textcraft_7/1"),
    ("an episode of 1,000 turns", "episode?run={run}&episode=" + LONG),
    ("the whole report", "report?run={run}"),
)


def made(folder: Path, episodes: int) -> Path:
    """A store of one run, with one episode of a thousand turns in it."""
    journal = write_journal(folder / "runs" / RUN, episodes, episodes)
    scheduled = make_scheduled(900_000, run=RUN, horizon=1000)
    attempt = make_attempt(scheduled, "success", turns=1000)
    with journal.open("ab") as file:
        file.writelines(encode(record) for record in (scheduled, attempt, make_outcome(attempt)))
    load(folder / "runs" / RUN, folder / "store.duckdb")
    return folder / "store.duckdb"


def measure(folder: Path, episodes: int) -> Iterator[str]:
    """Lines of a Markdown table."""
    database = made(folder, episodes)
    yield f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {episodes:,} episodes, store of {database.stat().st_size / 1e6:.0f} MB"
    command = [sys.executable, "-m", "agentgym_cli", "view", "--store", str(database), "--runs-dir", str(folder / "runs"), "--no-open", "--json"]
    began = time.perf_counter()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None, "its output is read"
    try:
        root = json.loads(server.stdout.readline())["url"]
        yield f"Started in {time.perf_counter() - began:.2f} s.\n\n| page | first | again | KB |\n|---|---|---|---|"
        for name, path in PAGES:
            (first, size), (again, _) = (fetched(root + path.format(run=RUN)) for _ in range(2))
            yield f"| {name} | {first:.2f} s | {again:.2f} s | {size / 1000:.0f} |"
        yield f"\nMost memory of the server: {peak(server.pid)}."
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


def fetched(address: str) -> tuple[float, int]:
    """Seconds of the clock and bytes of one page."""
    began = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        size = len(answer.read())
    return time.perf_counter() - began, size


def peak(process: int) -> str:
    """Where the system says it."""
    status = Path(f"/proc/{process}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((f"{int(line.split()[1]) / 1000:.0f} MB" for line in lines if line.startswith("VmHWM")), "not known on this system")


def main() -> None:
    """Measure in a folder that is made and removed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--episodes", type=int, default=100_000)
    options.add_argument("--folder", type=Path, default=Path("viewer-benchmark"))
    given = options.parse_args()
    given.folder.mkdir(parents=True)
    try:
        for line in measure(given.folder, given.episodes):
            print(line, flush=True)
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
