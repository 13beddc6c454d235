"""The horizon, its stage and the drawn tasks are pure functions of the step."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_cli.learn.schedules import horizon_at, stage_at, tasks_at
from agentgym_cli.recipe.schema.learning import FixedHorizon, HorizonSpec, IncrementHorizon, StagesHorizon

RELEASED = StagesHorizon(turns=(10, 20, 30), steps=(100,))
PAPER = IncrementHorizon(start=10, increment=5, every=50, cap=30)

schedules = st.one_of(
    st.builds(FixedHorizon, turns=st.integers(1, 50)),
    st.integers(1, 5).flatmap(
        lambda stages: st.builds(
            StagesHorizon,
            turns=st.tuples(*[st.integers(1, 50)] * stages),
            steps=st.one_of(st.tuples(st.integers(1, 20)), st.tuples(*[st.integers(1, 20)] * stages)),
        )
    ),
    st.builds(IncrementHorizon, start=st.integers(1, 20), increment=st.integers(1, 9), every=st.integers(1, 20), cap=st.integers(20, 50)),
)


@pytest.mark.parametrize(
    ("step", "turns", "stage"), [(1, 10, 1), (100, 10, 1), (101, 20, 2), (200, 20, 2), (201, 30, 3), (330, 30, 3), (10**6, 30, 3)]
)
def test_promise_06_released_stages_switch_exactly_behind_their_last_step(step, turns, stage):
    assert (horizon_at(RELEASED, step), stage_at(RELEASED, step)) == (turns, stage)


@pytest.mark.parametrize(("step", "turns", "stage"), [(1, 10, 1), (50, 10, 1), (51, 15, 2), (200, 25, 4), (201, 30, 5), (999, 30, 5)])
def test_promise_06_the_papers_increments_stop_at_the_cap(step, turns, stage):
    assert (horizon_at(PAPER, step), stage_at(PAPER, step)) == (turns, stage)


def test_an_increment_that_steps_over_the_cap_ends_on_it():
    schedule = IncrementHorizon(start=5, increment=4, every=2, cap=10)
    assert [horizon_at(schedule, step) for step in range(1, 9)] == [5, 5, 9, 9, 10, 10, 10, 10]
    assert [stage_at(schedule, step) for step in range(1, 9)] == [1, 1, 2, 2, 3, 3, 3, 3]


def test_stages_of_different_lengths_end_after_their_own():
    schedule = StagesHorizon(turns=(6, 9, 12), steps=(2, 3, 1))
    assert [horizon_at(schedule, step) for step in range(1, 9)] == [6, 6, 9, 9, 9, 12, 12, 12]


def test_a_fixed_horizon_has_one_stage():
    assert {(horizon_at(FixedHorizon(turns=7), step), stage_at(FixedHorizon(turns=7), step)) for step in range(1, 40)} == {(7, 1)}


@given(schedules, st.lists(st.integers(1, 200), min_size=1, max_size=30))
def test_promise_06_any_interruption_gives_the_sequence_of_an_uninterrupted_run(schedule: HorizonSpec, resumed_at: list[int]):
    uninterrupted = [horizon_at(schedule, step) for step in range(1, 201)]
    segments = [1, *sorted(resumed_at), 201]
    pieces = [[horizon_at(schedule, step) for step in range(first, last)] for first, last in itertools.pairwise(segments)]
    assert sum(pieces, []) == uninterrupted  # noqa: RUF017
    assert [horizon_at(schedule, step) for step in reversed(resumed_at)] == [uninterrupted[step - 1] for step in reversed(resumed_at)]


@given(schedules, st.integers(1, 300))
def test_a_stage_has_one_horizon_and_stages_never_go_back(schedule: HorizonSpec, step: int):
    before, now = stage_at(schedule, step), stage_at(schedule, step + 1)
    assert now - before in (0, 1)
    assert now != before or horizon_at(schedule, step) == horizon_at(schedule, step + 1)


@pytest.mark.parametrize("step", [0, -1])
@pytest.mark.parametrize("schedule", [RELEASED, PAPER, FixedHorizon(turns=3)])
def test_a_step_before_the_first_is_refused(schedule, step):
    with pytest.raises(ValueError, match="1 or more"):
        horizon_at(schedule, step)


@given(st.integers(1, 30), st.integers(0, 2**40), st.integers(1, 12), st.integers(1, 20))
def test_every_pass_over_the_tasks_draws_each_exactly_once(count: int, seed: int, per_step: int, steps: int):
    drawn = [task for step in range(1, steps + 1) for task in tasks_at(range(count), seed, step, per_step)]
    assert len(drawn) == steps * per_step
    for first in range(0, len(drawn), count):
        whole = drawn[first : first + count]
        assert max(Counter(whole).values()) == 1


@given(st.integers(1, 30), st.integers(0, 2**40), st.integers(1, 12), st.integers(1, 50))
def test_promise_06_the_tasks_of_a_step_do_not_depend_on_what_was_drawn_before(count: int, seed: int, per_step: int, step: int):
    one_long_step = tasks_at(range(count), seed, 1, per_step * step)
    assert tasks_at(range(count), seed, step, per_step) == one_long_step[-per_step:]


def test_passes_and_seeds_have_orders_of_their_own():
    first, second = tasks_at(range(40), 1, 1, 40), tasks_at(range(40), 1, 2, 40)
    assert sorted(first) == sorted(second) == list(range(40))
    assert len({first, second, tasks_at(range(40), 2, 1, 40), tuple(range(40))}) == 4


@pytest.mark.parametrize(("tasks", "step"), [((), 1), ((1,), 0)])
def test_no_tasks_and_no_step_are_refused(tasks, step):
    with pytest.raises(ValueError, match="expected tasks and a step"):
        tasks_at(tasks, 1, step, 1)


def test_schedules_load_without_torch():
    code = "import sys, agentgym_cli.learn.schedules; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
