"""A server that was given up is named with the moment and the cause, in every form, and so is one that never came back."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.jsonout import to_json
from agentgym_cli.report.markdown import render
from agentgym_cli.report.model import Report
from agentgym_cli.store.db import Connection
from agentgym_cli.store.records import Record, ServerRecord
from tests.report.runs import evaluation, printed, report_of
from tests.store.builders import make_run, make_segment

FIRST, SECOND = "http://127.0.0.1:36001", "http://127.0.0.1:36002"


def changed(number: int, url: str, event: str, happened: str, segment: int = 1) -> ServerRecord:
    opened = event == "opened"
    detail = "POST /step: \x1b[2Jno <b>answer</b>" if opened else ""
    return ServerRecord(
        run="r1", segment=segment, number=number, url=url, event=event, cause="timeout" if opened else None, detail=detail, happened=happened
    )


def report(store: Connection, folder: Path, *changes: ServerRecord) -> Report:
    records: list[Record] = [make_run(), make_segment(), *evaluation(("success",)), *changes]
    return report_of(store, folder / "r1", records)


def test_a_server_that_was_given_up_is_named_with_moment_and_cause(store: Connection, tmp_path: Path) -> None:
    ours = report(
        store,
        tmp_path,
        changed(1, FIRST, "opened", "2025-01-01T00:00:01.250+00:00"),
        changed(2, SECOND, "opened", "2025-01-01T00:00:02+00:00"),
        changed(3, FIRST, "closed", "2025-01-01T00:05:00+00:00"),
    )
    assert [(item["url"], item["event"], item["cause"]) for item in json.loads(to_json(ours))["servers"]] == [
        (FIRST, "given up", "timeout"),
        (SECOND, "given up", "timeout"),
        (FIRST, "taken back", None),
    ]
    for text in (printed(ours), render(ours), report_page(ours)):
        assert "Servers given up" in text
        assert "\x1b" not in text
        assert "<b>answer" not in text or text == printed(ours)
        assert "2025-01-01T00:05:00Z" in text
    flat = " ".join(printed(ours).split())
    assert f"Not taken back: {SECOND}" in flat
    assert f"Not taken back: {FIRST}" not in flat


def test_a_server_that_came_back_is_not_said_to_be_out(store: Connection, tmp_path: Path) -> None:
    back = (changed(1, FIRST, "opened", "2025-01-01T00:00:01+00:00"), changed(2, FIRST, "closed", "2025-01-01T00:00:02+00:00"))
    text = printed(report(store, tmp_path, *back))
    assert "Not taken back" not in text
    assert "Every one of them answered again" in text


def test_of_a_server_that_comes_and_goes_the_last_changes_are_named(store: Connection, tmp_path: Path) -> None:
    moments = [(number, ("closed", "opened")[number % 2], f"2025-01-01T00:00:{number:02}+00:00") for number in range(1, 31)]
    ours = report(store, tmp_path, *(changed(number, FIRST, event, moment) for number, event, moment in moments))
    text = printed(ours)
    assert (len(ours.servers), text.count("2025-01-01T00:00:11Z"), text.count("2025-01-01T00:00:10Z")) == (30, 1, 0)
    assert "10 more, which table servers has" in text


def test_where_every_server_answered_nothing_is_said_of_servers(store: Connection, tmp_path: Path) -> None:
    assert "Servers given up" not in printed(report(store, tmp_path))
