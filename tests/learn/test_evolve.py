"""AgentEvol's iterations, threshold and what a resume reads back."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_cli.errors import TrainerError
from agentgym_cli.learn.evolve import iteration_at, kept, read_explored, write_explored
from tests.learn.test_pairs import played


def test_iterations_are_spans_of_steps_and_the_last_may_be_shorter():
    found = [iteration_at(step, iteration_steps=3, steps=7) for step in (1, 3, 4, 7)]
    assert [(each.number, each.first, each.last) for each in found] == [(1, 1, 3), (1, 1, 3), (2, 4, 6), (3, 7, 7)]


def test_a_threshold_keeps_by_return_and_none_keeps_successes():
    episodes = [played(1, 0.0, 1), played(1, 0.5, 2), played(1, 1.0, 3)]
    assert [each.reward for each in kept(episodes, 0.5)] == [0.5, 1.0]
    assert [each.reward for each in kept(episodes, None)] == [1.0]


def test_what_was_explored_is_read_back_token_by_token(tmp_path: Path):
    episodes = [played(1, 0.25, 7), played(4, 1.0, 9)]
    write_explored(tmp_path / "explored" / "step-000001.jsonl", episodes)
    assert read_explored(tmp_path / "explored" / "step-000001.jsonl") == episodes


@pytest.mark.parametrize("line", ["{", "[]", '{"task": 1}', "null"])
def test_a_broken_line_is_named(tmp_path: Path, line: str):
    path = tmp_path / "e.jsonl"
    write_explored(path, [played(1, 0.25, 7)])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(TrainerError, match=r"e.jsonl:2: expected an explored episode"):
        read_explored(path)


def test_a_file_that_is_gone_is_said(tmp_path: Path):
    with pytest.raises(TrainerError, match="expected the explored episodes of this iteration, got FileNotFoundError"):
        read_explored(tmp_path / "gone.jsonl")
