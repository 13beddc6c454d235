"""The rows that verl is given are the schedule: in order, each with its scheduled step, task and horizon."""

from __future__ import annotations

from pathlib import Path

from agentgym_cli.episode.types import Task
from agentgym_cli.learn.schedules import horizon_at, tasks_at
from agentgym_cli.learn.verl.rows import evaluation_rows, read_rows, training_rows, write_rows
from agentgym_cli.recipe.schema.algorithms import GrpoSpec
from agentgym_cli.recipe.schema.learning import StagesHorizon, TrainSpec
from agentgym_cli.verbs.schedules import training_schedule

TASKS = tuple(Task(id=f"w_{n}", index=n, split="train", category="", goal="", digest="") for n in range(5))
HORIZON = StagesHorizon(turns=(2, 5), steps=(3,))
SPEC = TrainSpec(steps=4, tasks_per_step=7, learning_rate=1e-3, algorithm=GrpoSpec(group_size=3))


def test_promise_06_a_rows_horizon_is_that_of_its_scheduled_step(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", training_rows(TASKS, SPEC, HORIZON, seed=4))
    rows = read_rows(tmp_path / "rows")
    assert [row.step for row in rows] == [step for step in (1, 2, 3, 4) for _ in range(7)]
    assert [row.horizon for row in rows] == [2] * 21 + [5] * 7
    assert all(row.horizon == horizon_at(HORIZON, row.step) for row in rows)


def test_rows_and_the_local_schedule_name_the_same_episodes() -> None:
    # Seven draws of five tasks: two of them come twice in a step, and their samples go on counting.
    rows = list(training_rows(TASKS, SPEC, HORIZON, seed=4))
    for step in range(1, 5):
        of_step = [row for row in rows if row.step == step]
        played = [row.episode(member, phase="train", step=step).id for row in of_step for member in range(3)]
        drawn = tasks_at(TASKS, 4, step, 7)
        local = training_schedule(drawn, step=step, group_size=3, horizon=horizon_at(HORIZON, step))
        assert played == [episode.id for episode in local]
        assert len(set(played)) == 21


def test_an_evaluation_has_every_task_once_split_by_split() -> None:
    rows = list(evaluation_rows({"a": TASKS[:3], "b": TASKS[3:]}, horizon=9, limit=2))
    assert [(row.task.index, row.horizon, row.step) for row in rows] == [(0, 9, 0), (1, 9, 0), (3, 9, 0), (4, 9, 0)]
    assert rows[2].episode(1, phase="eval_before", step=0).id == "eval_before/train/0/w_3/1"
