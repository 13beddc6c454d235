"""Progress on stderr."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from agentgym_cli.cli.live import StderrProgress, seconds_left


@pytest.mark.parametrize(
    ("done", "before", "elapsed", "left"),
    [
        (0, 0, 5.0, None),
        (10, 0, 20.0, 180.0),
        (60, 50, 20.0, 80.0),
        (50, 50, 20.0, None),
        (3, 50, 0.1, None),
        (100, 0, 60.0, 0.0),
    ],
)
def test_time_left_goes_by_what_this_segment_has_done(done: int, before: int, elapsed: float, left: float | None) -> None:
    assert seconds_left(done, 100, before=before, elapsed=elapsed) == left


def test_a_pipe_gets_plain_lines_with_the_time_left() -> None:
    said = io.StringIO()
    progress = StderrProgress(Console(file=said, width=110))
    progress.begin("evaluate", 2, "episode")
    progress.advance(1, {"success": "100%", "infra": 0})
    progress.advance(2, {"success": "50%", "infra": 0})
    progress.end()
    first, last = said.getvalue().splitlines()
    assert first.startswith("evaluate    episode 1/2  success 100%  infra 0  0:00 +0:00 left")
    assert last.startswith("evaluate    episode 2/2  success 50%")
