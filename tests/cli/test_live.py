"""Progress on stderr."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.table import Table

from agentgym_cli.cli.live import StderrProgress, seconds_left, stderr_progress
from agentgym_cli.cli.show import stdout_console


@pytest.mark.parametrize(
    ("done", "before", "at_once", "elapsed", "left"),
    [
        (0, 0, 1, 5.0, None),
        (10, 0, 1, 20.0, 180.0),
        (60, 50, 1, 20.0, 80.0),
        (50, 50, 1, 20.0, None),
        (3, 50, 1, 0.1, None),
        # Of 16 in flight 15 have ended: the short ones.
        (15, 0, 16, 3.0, None),
        (16, 0, 16, 3.0, 15.75),
        (65, 50, 16, 3.0, None),
        # 4 of 100 are no share to judge by, 5 are.
        (4, 0, 1, 4.0, None),
        (5, 0, 1, 4.0, 76.0),
        # 5% of what this segment had to do: of 20.
        (81, 80, 1, 2.0, 38.0),
        (100, 0, 1, 60.0, None),
        (100, 100, 16, 0.1, None),
    ],
)
def test_time_left_is_said_once_a_wave_and_a_share_of_this_segment_are_over_and_not_at_the_end(
    done: int, before: int, at_once: int, elapsed: float, left: float | None
) -> None:
    assert seconds_left(done, 100, before=before, at_once=at_once, elapsed=elapsed) == left


def said_by(width: int = 80) -> tuple[StderrProgress, io.StringIO]:
    said = io.StringIO()
    return StderrProgress(Console(file=said, width=width)), said


def test_a_pipe_gets_plain_lines_with_the_time_left_and_none_at_the_end() -> None:
    progress, said = said_by()
    progress.begin("evaluate", 2, "episode")
    progress.advance(1, {"success": "100%", "infra": 0})
    progress.advance(2, {"success": "50%", "infra": 0})
    progress.end()
    assert said.getvalue().splitlines() == [
        "evaluate    episode 1/2  success 100%  infra 0  0:00 +0:00 left",
        "evaluate    episode 2/2  success 50%  infra 0  0:00",
    ]


def test_a_resume_of_what_is_finished_has_no_time_left() -> None:
    progress, said = said_by()
    progress.begin("evaluate", 2, "episode", done=2, at_once=16)
    progress.advance(1, {"infra": 0})
    progress.advance(2, {"infra": 0})
    assert [line for line in said.getvalue().splitlines() if "left" in line or "?" in line] == []


@pytest.mark.parametrize(
    ("total", "lines"),
    [
        (99, ["evaluate    episode 99/99  success 12%  invalid 0%  cut 0%  infra 0  0:00"]),
        (9_999_999, ["evaluate episode 9999999/9999999 success 12% invalid 0% cut 0% infra 0 0:00"]),
        (
            99_999_999_999,
            ["evaluate    episode 99999999999/99999999999  success 12%  invalid 0%  cut 0%", "            infra 0  0:00"],
        ),
    ],
)
def test_a_plain_line_is_at_most_80_wide_and_nothing_of_it_is_lost(total: int, lines: list[str]) -> None:
    progress, said = said_by()
    progress.begin("evaluate", total, "episode")
    progress.advance(total, {"success": "12%", "invalid": "0%", "cut": "0%", "infra": 0})
    assert said.getvalue().splitlines() == lines


def test_the_progress_of_a_pipe_is_80_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    progress = stderr_progress()
    progress.warn("the store is busy " * 12 + "at runs/a-name-that-is-long/" + "x" * 80)
    lines = said.getvalue().splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == "runs/a-name-that-is-long/" + "x" * 80, "a path stays whole"
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["run"]),
        ("r" * 90, ["run         " + "r" * 90]),
        ("s " * 35, ["run         " + "s " * 33 + "s", "            s"]),
        ("two\n  lines", ["run         two", "              lines"]),
    ],
)
def test_a_fact_is_wrapped_under_itself_and_a_path_stays_whole(text: str, lines: list[str]) -> None:
    progress, said = said_by()
    progress.note("run", text)
    assert [line.rstrip() for line in said.getvalue().splitlines()] == lines


def test_a_piped_table_has_no_blanks_at_the_ends_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stdout", said)
    table = Table(box=None, show_header=False)
    table.add_row("a", "long")
    table.add_row("bb", "x")
    stdout_console().print(table)
    assert said.getvalue() == " a   long\n bb  x\n"
