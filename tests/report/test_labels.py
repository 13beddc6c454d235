"""Every interval that is shown says how it was made, row by row where rows differ, and the cluster bootstrap stands beside the t interval."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.markdown import render
from agentgym_cli.report.model import Report
from agentgym_cli.report.phrases import bounds
from agentgym_cli.store.db import Connection
from tests.report.runs import printed, report_of
from tests.store.builders import make_run, make_scheduled, make_segment, settled


def sampled(store: Connection, folder: Path) -> Report:
    """Two samples of each of 24 tasks: 20 of one category, which are enough for t, and 4 of another."""
    records = [
        record
        for task in range(24)
        for sample in range(2)
        for record in settled(
            make_scheduled(task, sample=sample, category="many" if task < 20 else "few"), "success" if (task + sample) % 3 else "failure"
        )
    ]
    return report_of(store, folder / "r1", [make_run(), make_segment(), *records])


@pytest.mark.slow
def test_a_category_whose_interval_is_made_otherwise_says_so_in_its_row(store: Connection, tmp_path: Path) -> None:
    report = sampled(store, tmp_path)
    (part,) = report.parts
    assert part.accounting.end_to_end.method == "t over tasks"
    assert {each.name: each.accounting.end_to_end.method for each in part.categories} == {"many": "t over tasks", "few": "wilson over tasks"}
    for text in (printed(report), render(report), report_page(report)):
        assert "categories as their rows say" in " ".join(text.split())
    row = next(line for line in render(report).splitlines() if line.startswith("| few |"))
    assert row.count("wilson over tasks") == 2
    assert "wilson over tasks" not in next(line for line in render(report).splitlines() if line.startswith("| many |"))


@pytest.mark.slow
def test_rows_made_alike_need_no_label_of_their_own(store: Connection, tmp_path: Path) -> None:
    records = [record for task in range(6) for record in settled(make_scheduled(task, category=f"depth {task % 2}"), "success")]
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), *records])
    assert "categories as their rows say" not in printed(report)


@pytest.mark.slow
def test_the_cluster_bootstrap_stands_beside_the_t_interval_in_every_form(store: Connection, tmp_path: Path) -> None:
    report = sampled(store, tmp_path)
    whole = report.parts[0].accounting.end_to_end.beside
    many = next(each.accounting for each in report.parts[0].categories if each.name == "many").end_to_end.beside
    assert whole is not None
    assert many is not None
    for text in (printed(report), render(report), report_page(report)):
        said = " ".join(text.split())
        assert f"end to end {bounds(whole.low, whole.high)}" in said
        assert f"bootstrap {bounds(many.low, many.high)}" in said


def test_no_name_of_a_figure_is_broken_on_a_narrow_terminal(store: Connection, tmp_path: Path) -> None:
    lines = printed(sampled(store, tmp_path), width=80).splitlines()
    start = lines.index("Several tries at a task")
    table = lines[start : lines.index("", start)]
    assert sum("conditional" in line for line in table) == 2
    assert sum("end to end" in line for line in table) == 2
    assert max(map(len, lines)) <= 80


def test_long_lists_of_our_own_are_whole_on_a_terminal(store: Connection, tmp_path: Path) -> None:
    report = sampled(store, tmp_path)
    rules = [finding.rule for finding in report.findings]
    said = " ".join(printed(report).split())
    assert all(rule in said for rule in rules)
    assert "..." not in said
