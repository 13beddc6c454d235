"""The preflight's estimate beside what came of it."""

from __future__ import annotations

from pathlib import Path

from agentgym_cli.report.estimates import estimates
from agentgym_cli.store.db import Connection
from tests.report.runs import printed, report_of
from tests.store.builders import NOW, make_metric, make_run, make_segment

ESTIMATED = {"step_seconds": 10.0, "play_seconds": 6.0, "update_seconds": 4.0, "turns_mean": 5.0, "peak_bytes": 512 * 1024.0**2}


def test_every_estimate_stands_beside_what_was_measured(store: Connection, tmp_path: Path) -> None:
    measured = [make_metric("time/measured_peak_bytes", 640 * 1024.0**2, 0, phase="estimate")]
    kept = [make_metric(f"time/{name}", value, 0, phase="estimate") for name, value in ESTIMATED.items()]
    steps = [make_metric(name, value, step) for step in (1, 2) for name, value in (("time/step_seconds", 12.0), ("time/play_seconds", 9.0))]
    ended = make_segment(ended=NOW, status="finished")
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), *kept, *measured, *steps, make_metric("turns_mean", 4.0, 1), ended])
    (section,) = estimates(report)
    rows = {row[0]: row[1:] for row in section.blocks[0].rows}  # type: ignore[union-attr]
    assert rows["most memory, MiB"] == ("512", "640", "1.25")
    assert rows["a step, seconds"] == ("10", "12", "1.20")
    assert rows["its update"] == ("4", "3", "0.75")
    assert rows["turns of an episode"] == ("5", "4", "0.80")
    assert rows["tokens sampled"][2] == "n/a"
    assert "Estimate and reality" in printed(report)


def test_a_run_without_an_estimate_says_nothing_of_it(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), make_metric("loss", 1.0, 1)])
    assert estimates(report) == []
