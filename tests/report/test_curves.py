"""Curves against something else than steps: each step reaches from where the one before it ended to where it ended itself."""

from __future__ import annotations

from dataclasses import replace

from agentgym_cli.report.curves import draw_curves, starts_at, stretched
from agentgym_cli.report.face import axis
from agentgym_cli.report.html_report import report_page
from agentgym_cli.report.model import Axis, Curve, Report
from agentgym_cli.store.diagnosis_rows import AxisRow

TOKENS = Axis(name="tokens", at=((1, 100.0), (2, 200.0), (3, 400.0)))
CURVE = Curve(phase="train", name="success", points=((1, 0.1), (2, None), (3, 0.3)))


def test_a_step_that_took_twice_as_much_is_twice_as_wide() -> None:
    assert [value for _, value in stretched(CURVE, TOKENS, 4)] == [0.1, None, 0.3, 0.3]
    assert [value for _, value in stretched(CURVE, TOKENS, 8)] == [0.1, 0.1, None, None, 0.3, 0.3, 0.3, 0.3]


def test_a_step_begins_where_the_one_before_it_ended() -> None:
    assert [starts_at(TOKENS, step) for step in (1, 2, 3)] == [0.0, 100.0, 200.0]


def test_an_axis_never_falls_and_is_none_where_a_step_kept_nothing() -> None:
    rows = [AxisRow(step=1, turns=10, tokens=5, seconds=2.0), AxisRow(step=2, turns=8, tokens=None, seconds=3.0)]
    assert axis(rows, "turns") == Axis(name="turns", at=((1, 10.0), (2, 10.0)))
    assert axis(rows, "tokens") is None
    assert axis([], "turns") is None


def test_titles_and_stages_follow_the_axis(trained: Report) -> None:
    at = tuple((step, 1000.0 * step * step) for step in range(1, 7))
    learning = replace(trained.learning, axis=Axis(name="tokens", at=at))
    (title, lines) = next(drawn for drawn in draw_curves(learning, width=82, ascii_only=False) if drawn[0].startswith("Training, success"))
    assert title == "Training, success by tokens: 0.1 at 1,000, 0.6 at 36,000"
    # 72 columns for 36,000 tokens: the third stage begins where step 4 ended, at 16,000, column 32; the second's label has no room at column 8.
    assert lines[-1][10:] == "|horizon 6".ljust(32) + "|horizon 12"
    page = report_page(replace(trained, learning=learning))
    assert "train: success of scored episodes, by tokens" in page


def test_extreme_values_are_drawn_on_a_terminal_too(trained: Report) -> None:
    """As many steps as would overflow when their values are added up before they are averaged."""
    points = tuple((step, 1.7e308 if step % 2 else -1.7e308) for step in range(1, 400))
    loud = tuple((step, 1.7e308) for step in range(1, 400))
    curves = (Curve(phase="train", name="success", points=loud), Curve(phase="train", name="reward_mean", points=points))
    drawn = draw_curves(replace(trained.learning, curves=curves), width=82, ascii_only=False)
    assert [title.split(":")[0] for title, _ in drawn] == ["Training, success by step", "Training, mean reward by step"]
