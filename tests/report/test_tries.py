"""pass@k, pass^k and avg@k equal what all subsets of the episodes say."""

from __future__ import annotations

from itertools import combinations

import pytest

from agentgym_cli.report.statistics.pass_at import ladder, pass_all, pass_at
from agentgym_cli.report.tries import Tries, tries
from agentgym_cli.store.task_rows import CellRow


@pytest.mark.parametrize("samples", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_subsets_with_a_success_and_pass_to_the_k_of_those_without_a_failure(samples: int) -> None:
    for successes in range(samples + 1):
        episodes = [True] * successes + [False] * (samples - successes)
        for k in range(1, samples + 1):
            subsets = list(combinations(episodes, k))
            assert pass_at(successes, samples, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))
            assert pass_all(successes, samples, k) == pytest.approx(sum(map(all, subsets)) / len(subsets))


def test_the_k_shown_are_powers_of_two_and_the_number_of_samples() -> None:
    assert [ladder(samples) for samples in (0, 1, 2, 5, 8)] == [(), (1,), (1, 2), (1, 2, 4, 5), (1, 2, 4, 8)]


def make_cell(tasks: int, scheduled: int, success: int, scored: int | None = None) -> CellRow:
    scored = scheduled if scored is None else scored
    return CellRow(
        phase="eval", split="test", step=0, category="", scheduled=scheduled, success=success, scored=scored,
        infra_error=scheduled - scored, tasks=tasks,
    )  # fmt: skip


def found(cells: list[CellRow], k: int, counted: str) -> Tries:
    return next(row for row in tries(cells) if (row.k, row.counted) == (k, counted))


def test_each_task_weighs_alike_and_the_mean_over_tasks_is_worked_out_by_hand() -> None:
    cells = [make_cell(10, 4, 4), make_cell(20, 4, 1), make_cell(10, 4, 0)]
    two = found(cells, 2, "end to end")
    # pass@2: 1, 1 - C(3,2)/C(4,2) = 1/2, 0; pass^2: 1, 0, 0
    assert (two.any_of.value, two.all_of.value, two.average.value) == pytest.approx((20 / 40, 10 / 40, 15 / 40))
    assert (two.tasks, two.too_few, two.any_of.method) == (40, 0, "t over tasks")
    assert two.any_of.low is not None
    assert two.any_of.high is not None
    assert two.any_of.low < 0.5 < two.any_of.high


def test_an_episode_without_a_score_is_no_success_end_to_end_and_left_out_conditionally() -> None:
    cells = [make_cell(1, 2, 1, scored=1), make_cell(1, 2, 2)]
    assert found(cells, 2, "end to end").all_of.value == pytest.approx(0.5)
    conditional = found(cells, 2, "conditional")
    assert (conditional.all_of.value, conditional.tasks, conditional.too_few) == (1.0, 1, 1)
    assert found(cells, 1, "conditional").average.value == 1.0


def test_without_any_task_that_has_enough_episodes_there_is_no_value() -> None:
    row = found([make_cell(3, 2, 0, scored=1)], 2, "conditional")
    assert (row.any_of.value, row.any_of.low, row.tasks, row.too_few) == (None, None, 0, 3)


def test_single_episodes_have_no_tries() -> None:
    assert tries([make_cell(5, 1, 1)]) == ()
    assert tries([]) == ()
