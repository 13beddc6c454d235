"""How fast a store is: a journal of many episodes loaded, asked all that a report asks, one trajectory read, its size on disk; and what this history
costs the next run, of a thousand episodes, which is loaded into it and into an empty store.

    python -m benchmarks.store --episodes 1000000 --with-turns 100000 --folder /tmp/store-benchmark

Journal lines are made from two real ones by replacing what differs, since encoding a million records would take longer than everything else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson

from agentgym_cli.report.build import read_rows
from agentgym_cli.store.codec import encode
from agentgym_cli.store.db import transaction
from agentgym_cli.store.loader import load
from agentgym_cli.store.opening import open_for_reading, open_for_writing
from agentgym_cli.store.records import AttemptRecord, OutcomeRecord, RunRecord, ScheduledRecord, SegmentRecord, TurnRecord

T = TypeVar("T")
RUN, NOW, TASKS, TURNS, NEXT = "benchmark-run", "2025-01-01T00:00:00+00:00", 5000, 8, 1000
_TABLES = ("runs", "segments", "scheduled", "attempts", "turns", "outcomes")
TRAJECTORY = "select turn, observation, text, action, valid, reward, done from turns where run = ? and episode = ? and attempt = 1 order by turn"


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds of the clock and of the processor."""

    wall: float
    cpu: float


def timed(work: Callable[[], T]) -> tuple[T, Timed]:
    """What the work gave and how long it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = work()
    return value, Timed(time.perf_counter() - wall, time.process_time() - cpu)


def write_journal(folder: Path, episodes: int, with_turns: int, run: str = RUN) -> Path:
    """A journal of one evaluation named ``run``: 60% successes, 30% failures, 10% infra errors, over 5,000 tasks of four categories."""
    path = folder / "journal" / "0001.jsonl"
    path.parent.mkdir(parents=True)
    every = max(1, episodes // with_turns)
    kinds = [(_lines(kind, turns=True), _lines(kind, turns=False)) for kind in ("success",) * 6 + ("failure",) * 3 + ("infra_error",)]
    with path.open("wb") as file:
        head = encode(_run()) + encode(SegmentRecord(run=RUN, segment=1, resumed_from_step=None, started=NOW))
        file.write(head.replace(RUN.encode(), run.encode()))
        for number in range(episodes):
            lines = kinds[number // every % 10][number % every != 0].replace(RUN.encode(), run.encode())
            task, sample = b"%d" % (number % TASKS), b"%d" % (number // TASKS)
            file.write(lines.replace(_TASK, task).replace(_SAMPLE, sample).replace(b"@DEPTH", b"%d" % (number % TASKS % 4)))
    return path


_TASK, _SAMPLE = b"111111111", b"222222222"
"""Stand in the lines for the numbers of a task and a sample."""


def _lines(outcome: str, *, turns: bool) -> bytes:
    """The three lines of an episode."""
    task, sample = int(_TASK), int(_SAMPLE)
    key = f"eval/test/0/textcraft_{task}/{sample}"
    scheduled = ScheduledRecord(
        run=RUN,
        segment=1,
        episode=key,
        phase="eval",
        split="test",
        step=0,
        task=f"textcraft_{task}",
        task_index=task,
        task_digest="0123456789abcdef",
        category="depth @DEPTH",
        goal="craft stick",
        sample=sample,
        horizon=30,
    )
    reward = {"success": 1.0, "failure": 0.0}.get(outcome)
    attempt = _attempt(key, outcome, reward, tuple(map(_turn, range(1, TURNS + 1))) if turns else ())
    settled = OutcomeRecord(
        run=RUN, segment=1, episode=key, attempt=1, attempts=1, outcome=outcome, first_outcome=outcome, reward=reward, by_verifier=False
    )
    return b"".join(encode(record) for record in (scheduled, attempt, settled))


def _attempt(key: str, outcome: str, reward: float | None, turns: tuple[TurnRecord, ...]) -> AttemptRecord:
    return AttemptRecord(
        run=RUN,
        segment=1,
        episode=key,
        attempt=1,
        seed=12345678901234567890,
        stop={"success": "done", "failure": "horizon"}.get(outcome, "env_error"),
        outcome=outcome,
        truncated=outcome == "failure",
        cause=None if reward is not None else "server_5xx",
        detail="" if reward is not None else "POST /step: expected 200, got 503",
        action_induced=False,
        reward=reward,
        turns_count=TURNS,
        invalid_actions=1,
        prompt_tokens=300,
        action_tokens=160,
        policy_version=0,
        seconds=4.25,
        policy_seconds=4.0,
        env_seconds=0.125,
        replica="http://127.0.0.1:36001",
        final_observation="Crafted 4 minecraft:stick",
        ended=NOW,
        turns=turns,
    )


def _turn(turn: int) -> TurnRecord:
    return TurnRecord(
        turn=turn,
        observation="Could not find enough items to craft minecraft:stick",
        text="Thought: I need planks first, which are made of logs.\nAction: get 1 oak log",
        action="get 1 oak log",
        valid=turn != 1,
        reward=0.0,
        done=turn == TURNS,
        response_tokens=20,
        context_tokens=300 + 40 * turn,
        policy_seconds=0.5,
        env_seconds=0.015625,
    )


def _run() -> RunRecord:
    return RunRecord(
        run=RUN,
        name="benchmark",
        verb="eval",
        profile="laptop",
        profile_reason="a benchmark",
        engine="local",
        digest="d" * 64,
        env="textcraft",
        policy="scripted",
        seed=1,
        created=NOW,
        frozen="{}",
        fingerprint="{}",
    )


def measure(folder: Path, episodes: int, with_turns: int) -> Iterator[str]:
    """Lines of a Markdown table."""
    run_dir, database = folder / RUN, folder / "store.duckdb"
    journal = write_journal(run_dir, episodes, with_turns)
    size = journal.stat().st_size
    yield f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {episodes:,} episodes, turns of {with_turns:,}, {size / 1e6:.0f} MB of JSONL"
    yield "\n| what | clock | processor | |\n|---|---|---|---|"
    _, plain = timed(lambda: _read_only(journal))
    yield _line("read the lines with orjson, nothing else", plain, f"{episodes / plain.cpu:,.0f} episodes a processor second")
    loaded, took = timed(lambda: load(run_dir, database))
    assert loaded.records == 3 * episodes + 2, "every line is loaded"
    yield _line("load the journal", took, f"{episodes / took.wall:,.0f} episodes a second, {episodes / took.cpu:,.0f} a processor second")
    with open_for_reading(database) as connection:
        _, took = timed(lambda: read_rows(connection, RUN))
        yield _line("all queries of a report", took, "")
        key = f"eval/test/0/textcraft_0/{episodes // TASKS // 2}"
        turns, took = timed(lambda: connection.execute(TRAJECTORY, [RUN, key]).fetchall())
        assert len(turns) == TURNS, "the trajectory is there"
        yield _line("one trajectory", took, f"{len(turns)} turns")
        batches = {name: connection.sql(f"from {name}").to_arrow_table() for name in _TABLES}
    _, took = timed(lambda: _insert(folder / "arrow.duckdb", batches))
    yield _line("the same rows as Arrow batches into an empty store, committed", took, f"{episodes / took.cpu:,.0f} episodes a processor second")
    batches.clear()
    yield from next_run(folder, folder / "empty.duckdb", "nothing")
    yield from next_run(folder, database, "all that")
    yield f"\nStore {database.stat().st_size / 1e6:.0f} MB, {100 * database.stat().st_size / size:.0f}% of the JSONL."


def _insert(database: Path, batches: Mapping[str, object]) -> None:
    """What of a load is not the reading of JSON: the tables' rows, without the one that reports count from."""
    with open_for_writing(database) as connection, transaction(connection):
        for name, batch in batches.items():
            connection.register("batch", batch)
            connection.execute(f"insert into {name} by name from batch")
            connection.unregister("batch")


def next_run(folder: Path, database: Path, beside: str) -> Iterator[str]:
    """What the next run costs in a store: two lines of the table."""
    run = folder / f"next-{database.stem}"
    write_journal(run, NEXT, NEXT, run=run.name)
    _, took = timed(lambda: load(run, database))
    yield _line(f"the next run, loaded beside {beside}", took, f"{NEXT:,} episodes")
    with open_for_reading(database) as connection:
        _, took = timed(lambda: read_rows(connection, run.name))
    yield _line("all queries of its report", took, "")


def _line(what: str, took: Timed, more: str) -> str:
    return f"| {what} | {took.wall:.3f} s | {took.cpu:.3f} s | {more} |"


def _read_only(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def main() -> None:
    """Measure in a folder that is made and removed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--episodes", type=int, default=1_000_000)
    options.add_argument("--with-turns", type=int, default=100_000)
    options.add_argument("--folder", type=Path, default=Path("store-benchmark"))
    given = options.parse_args()
    given.folder.mkdir(parents=True)
    try:
        for line in measure(given.folder, given.episodes, given.with_turns):
            print(line, flush=True)
    finally:
        shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
