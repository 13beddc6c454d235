"""A plot's characters are the values, column by column."""

from __future__ import annotations

import pytest

from agentgym_cli.report.plot import ASCII_BLOCKS, columns, marks, plot


def test_one_column_per_step_in_eighths() -> None:
    points = [(step, step / 8) for step in range(1, 9)]
    assert plot(points, width=8, height=1, low=0, high=1) == ["▁▂▃▄▅▆▇█"]


def test_rows_stack_from_the_bottom() -> None:
    assert plot([(1, 0.25), (2, 0.75), (3, 1.0)], width=3, height=2, low=0, high=1) == [" ▄█", "▄██"]


def test_zero_shows_and_no_data_does_not() -> None:
    assert plot([(1, 0.0), (2, None), (3, 1.0)], width=3, height=1, low=0, high=1) == ["▁ █"]


def test_ascii_has_two_levels_a_row() -> None:
    assert plot([(1, 0.5), (2, 1.0)], width=2, height=1, low=0, high=1, blocks=ASCII_BLOCKS) == [".#"]


def test_many_steps_are_averaged_and_few_are_widened() -> None:
    assert columns([(1, 1.0), (2, 2.0), (3, None), (4, 4.0)], 2) == [1.5, 4.0]
    assert columns([(5, 1.0), (6, 2.0)], 7) == [1.0] * 3 + [2.0] * 3
    assert columns([(1, 1.0), (4, 4.0)], 4) == [1.0, None, None, 4.0]
    assert columns([], 4) == []


def test_a_flat_curve_and_values_outside_the_scale_are_drawn() -> None:
    assert plot([(1, 3.0)], width=1, height=1, low=3, high=3) == ["█"]
    assert plot([(1, -5.0), (2, 5.0)], width=2, height=1, low=0, high=1) == ["▁█"]


def test_stages_are_marked_at_their_first_step() -> None:
    line = marks([(1, "6"), (41, "9"), (81, "12")], first=1, last=120, width=60)
    assert [line.index(label) for label in ("|6", "|9", "|12")] == [0, 20, 40]


def test_labels_without_room_are_cut_to_their_mark_or_left_out() -> None:
    assert marks([(1, "horizon 6"), (2, "horizon 9"), (20, "horizon 12")], first=1, last=20, width=20) == "|horizon 6         |"


@pytest.mark.parametrize("width", [1, 7, 60, 200])
def test_a_plot_and_its_marks_are_never_wider_than_asked(width: int) -> None:
    points = [(step, 0.5) for step in range(1, 78)]
    assert all(len(line) <= width for line in plot(points, width=width, height=3, low=0, high=1))
    assert len(marks([(1, "horizon 6"), (40, "horizon 9")], first=1, last=77, width=width)) <= width
