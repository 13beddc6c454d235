"""The log: a JSON object a line, written off the hot path; a reader that does not read holds up nobody."""

from __future__ import annotations

import io
import json
import logging
import threading

import pytest

from agentgym_envs import logs
from agentgym_envs.logs import logging_to

logger = logging.getLogger("agentgym_envs.test")


def written(level: str, *calls: str) -> list[dict[str, object]]:
    stream = io.StringIO()
    with logging_to(stream, level):
        for call in calls:
            getattr(logger, call)(f"said {call}", extra={"session": 7})
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_line_of_json_with_what_was_given_beside_it() -> None:
    (said,) = written("info", "debug", "info")
    assert said.pop("time") and said.pop("pid")
    assert said == {"level": "info", "logger": "agentgym_envs.test", "event": "said info", "session": 7}


def test_a_failure_brings_its_traceback_in_the_same_line() -> None:
    stream = io.StringIO()
    with logging_to(stream, "warning"):
        try:
            raise ValueError("the\nreason")
        except ValueError:
            logger.exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert json.loads(line)["failure"].endswith("ValueError: the\nreason")


class Stuck(io.StringIO):
    """A stream whose reader does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.entered = threading.Event(), threading.Event()

    def write(self, text: str) -> int:
        self.entered.set()
        self.gate.wait(10)
        return super().write(text)


def test_a_reader_that_does_not_read_costs_records_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MOST_WAITING", 2)
    stream = Stuck()
    with logging_to(stream, "warning"):
        logger.warning("first")
        assert stream.entered.wait(10)
        for number in range(5):
            logger.warning("more", extra={"number": number})
        stream.gate.set()
    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["event"], line.get("number"), line.get("dropped_before")) for line in said] == [
        ("first", None, None),
        ("more", 0, 3),
        ("more", 1, None),
    ]


def test_a_stream_that_is_gone_is_written_to_no_more_and_nobody_notices() -> None:
    stream = io.StringIO()
    stream.close()
    before = threading.active_count()
    with logging_to(stream, "warning"):
        for _ in range(3):
            logger.warning("unheard")
    assert threading.active_count() == before
