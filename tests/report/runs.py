"""A training run as its journal would tell it, and its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path

from rich.console import Console

from agentgym_cli.report.assemble import assemble
from agentgym_cli.report.build import read_rows
from agentgym_cli.report.model import Report
from agentgym_cli.report.terminal import print_report
from agentgym_cli.store.db import Connection
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import CheckpointRecord, ProbeRecord, Record
from tests.store.builders import NOW, make_metric, make_run, make_scheduled, make_segment, settled, write_journal

HANDBOOK = ("success",) * 60 + ("failure",) * 30 + ("infra_error",) * 10
FROZEN = (
    '{"config":{"engine":{"stack":"cpu"},"env":{"max_infra_share":0.5},"evaluation":{"limit":100},"retry":{"attempts":3},"store":{"runs_dir":"runs","database":"results.duckdb"}},'
    '"parts":{"lock":{"cpu.txt":"' + "a" * 64 + '"},"tasks.evaluation.test":{"count":"120","rows":"b"}}}'
)


def evaluation(outcomes: Sequence[str], phase: str = "eval", step: int = 0, categories: int = 1) -> list[Record]:
    """One episode per task, tasks spread over categories."""
    records: list[Record] = []
    for number, outcome in enumerate(outcomes):
        records += settled(make_scheduled(number, phase=phase, step=step, category=f"depth {1 + number % categories}"), outcome)
    return records


def training(steps: int = 6, stage: int = 2) -> list[Record]:
    """Metrics of a short training, horizon 6, 9, 12, with one group dropped and one without variance per step, and a warm start."""
    records: list[Record] = [make_metric("loss", 3.0 / step, step, phase="warm_start") for step in range(1, 4)]
    for step in range(1, steps + 1):
        values = {
            "success": step / 10,
            "reward_mean": step / 5,
            "horizon": float(6 + 3 * ((step - 1) // stage)),
            "groups_planned": 12.0,
            "groups_scored": 11.0,
            "groups_dropped": 1.0,
            "groups_zero_variance": 3.0,
            "logp_difference_max": 1e-6 * step,
            "time/tokens_per_second": 1000.0 * step,
            "something_new": 2.5,
        }
        records += [make_metric(name, value, step) for name, value in values.items()]
    return records


def trained_run() -> list[Record]:
    """Everything a report can show, in one segment."""
    return [
        make_run(frozen=FROZEN),
        make_segment(),
        ProbeRecord(run="r1", segment=1, url="http://127.0.0.1:1", name="step", result="pass", detail="", seconds=0.1),
        ProbeRecord(run="r1", segment=1, url="http://127.0.0.1:1", name="close_twice", result="known deviation", detail="false", seconds=0.1),
        *evaluation(("success",) * 20 + ("failure",) * 80, "eval_before", 0, categories=2),
        *training(),
        *evaluation(HANDBOOK, "eval_after", 6, categories=2),
        CheckpointRecord(run="r1", segment=1, step=6, path="checkpoints/6", digest="c" * 64),
        make_segment(ended=NOW, status="finished"),
    ]


def report_of(store: Connection, folder: Path, *segments: Iterable[Record]) -> Report:
    """From journal through store to report."""
    load_into(store, write_journal(folder, *segments))
    return assemble(read_rows(store, "r1"))


def printed(report: Report, encoding: str = "utf-8", width: int = 80) -> str:
    """What a pipe of that encoding gets."""
    stream = TextIOWrapper(BytesIO(), encoding=encoding, newline="\n")
    print_report(report, Console(file=stream, width=width))
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, BytesIO)
    return buffer.getvalue().decode(encoding)
