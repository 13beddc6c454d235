"""Schedules are pure: the same run gives the same episodes in the same order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.episode.types import Outcome
from agentgym_cli.errors import RecipeError
from agentgym_cli.recipe.schema.learning import ChosenTasks
from agentgym_cli.verbs.degraded import InfraShare
from agentgym_cli.verbs.play import Tally
from agentgym_cli.verbs.schedules import chosen_tasks, demonstration_schedule, evaluation_schedule, training_schedule
from tests.verbs.builders import make_attempt, make_episode, make_result, make_task, make_turn


def test_a_step_has_one_group_of_samples_for_each_task_side_by_side():
    schedule = training_schedule([make_task(3), make_task(5)], step=2, group_size=2, horizon=6)
    assert [(e.task.index, e.sample, e.step, e.horizon) for e in schedule] == [(3, 0, 2, 6), (3, 1, 2, 6), (5, 0, 2, 6), (5, 1, 2, 6)]


def test_a_task_drawn_twice_in_a_step_never_repeats_an_episode():
    schedule = training_schedule([make_task(3), make_task(3)], step=1, group_size=2, horizon=6)
    assert [e.sample for e in schedule] == [0, 1, 2, 3]
    assert len({e.id for e in schedule}) == 4


def test_an_evaluation_schedules_every_split_apart_and_leaves_out_what_the_limit_says():
    splits = {"a": [make_task(i, "a") for i in range(3)], "b": [make_task(9, "b")]}
    schedule = evaluation_schedule(splits, phase="eval", step=0, samples=2, horizon=5, limit=2)
    assert [(e.task.split, e.task.index, e.sample) for e in schedule] == [
        ("a", 0, 0),
        ("a", 0, 1),
        ("a", 1, 0),
        ("a", 1, 1),
        ("b", 9, 0),
        ("b", 9, 1),
    ]


def test_demonstrations_are_drawn_by_seed_without_repeats():
    tasks = [make_task(i) for i in range(20)]
    first, again = (demonstration_schedule(tasks, seed=1, count=8, horizon=9) for _ in range(2))
    assert [e.id for e in first] == [e.id for e in again]
    assert len({e.task.index for e in first}) == 8
    assert [e.task.index for e in first] != [e.task.index for e in demonstration_schedule(tasks, seed=2, count=8, horizon=9)]


def make_tally(*outcomes: Outcome) -> Tally:
    tally = Tally()
    for number, outcome in enumerate(outcomes):
        episode = make_episode(number)
        tally.add(make_result(episode, make_attempt(episode, outcome=outcome, turns=(make_turn(), make_turn(valid=False)))))
    return tally


def test_a_tally_counts_infra_errors_among_the_episodes_and_out_of_the_rewards():
    tally = make_tally(Outcome.SUCCESS, Outcome.FAILURE, Outcome.INFRA_ERROR, Outcome.SUCCESS)
    assert (tally.success, tally.reward_mean, tally.scored, tally.infra_errors) == (2 / 4, 2 / 3, 3, 1)
    assert (tally.invalid_share, tally.truncated_share) == (0.5, 0.25)


def test_a_tally_without_episodes_has_no_rates():
    assert (Tally().success, Tally().reward_mean, Tally().invalid_share, Tally().truncated_share) == (None, None, None, None)


def test_a_phase_above_the_infra_limit_makes_a_run_degraded_and_is_named():
    share = InfraShare(0.25, {})
    for number, outcome in enumerate((Outcome.SUCCESS, Outcome.SUCCESS, Outcome.SUCCESS, Outcome.INFRA_ERROR)):
        share.count(f"eval_before/a/0/t_{number}/0", outcome)
    assert share.sentence() is None
    share.count("train/a/1/t_1/0", Outcome.SUCCESS)
    share.count("train/a/1/t_2/0", Outcome.INFRA_ERROR)
    assert share.sentence() == "infra share: expected at most 25% of scheduled episodes, got train 50.0% (1 of 2)"


def test_errors_that_came_back_on_the_same_action_are_bounded_by_a_share_of_their_own():
    share = InfraShare(0.5, {"eval/a/0/t_1/0": "infra_error"}, induced_limit=0.25, induced={"eval/a/0/t_1/0"})
    for number in range(2, 5):
        share.count(f"eval/a/0/t_{number}/0", Outcome.SUCCESS)
    assert share.sentence() is None
    share.count("eval/a/0/t_5/0", Outcome.INFRA_ERROR, induced=True)
    assert share.sentence() == "errors that came back on the same action: expected at most 25% of scheduled episodes, got eval 40.0% (2 of 5)"
    share.count("eval/a/0/t_6/0", Outcome.INFRA_ERROR)
    share.count("eval/a/0/t_7/0", Outcome.INFRA_ERROR)
    assert share.sentence() == (
        "infra share: expected at most 50% of scheduled episodes, got eval 57.1% (4 of 7); "
        "errors that came back on the same action: expected at most 25% of scheduled episodes, got eval 28.6% (2 of 7)"
    )


def test_a_resumed_run_is_judged_with_what_earlier_segments_left():
    share = InfraShare(0.25, {"train/a/1/t_1/0": "infra_error", "train/a/1/t_2/0": "success"})
    share.count("train/a/2/t_1/0", Outcome.SUCCESS)
    assert share.sentence() == "infra share: expected at most 25% of scheduled episodes, got train 33.3% (1 of 3)"


def chosen(**only: object) -> dict[str, list[int]]:
    """Numbers of the tasks of two splits that are left: a has 1 to 5, b has 6 to 8; even ones are of category even."""
    splits = {
        name: tuple(replace(make_task(index, name), category="even" if index % 2 == 0 else "odd") for index in numbers)
        for name, numbers in {"a": range(1, 6), "b": range(6, 9)}.items()
    }
    found = chosen_tasks(splits, ChosenTasks(**only), env="textcraft")  # type: ignore[arg-type]
    return {name: [task.index for task in tasks] for name, tasks in found.items()}


def test_tasks_are_chosen_by_number_category_and_split_together() -> None:
    assert chosen() == {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8]}
    assert chosen(ids="2-3,textcraft_7") == {"a": [2, 3], "b": [7]}
    assert chosen(categories=("even",)) == {"a": [2, 4], "b": [6, 8]}
    assert chosen(splits=("b",), categories=("even",), ids="1-7") == {"b": [6]}


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ({"ids": "9-12"}, "expected numbers of tasks of the evaluation splits, got no 9 of 9-12"),
        ({"ids": "9"}, "expected numbers of tasks of the evaluation splits, got 9"),
        ({"ids": "1-999999999"}, "expected numbers of tasks of the evaluation splits, got no 9 of 1-999999999"),
        ({"ids": "5-3"}, "expected a range that rises, got 5-3, which goes backwards"),
        ({"ids": "babyai_3"}, "expected tasks of textcraft, got babyai_3"),
        ({"categories": ("evn",)}, "evaluation.only.categories: expected some of even, odd, got evn; did you mean even?"),
        ({"splits": ("c",)}, "evaluation.only.splits: expected some of a, b, got c"),
        ({"splits": ("a",), "ids": "7"}, "filters that no task of the evaluation splits meets together"),
    ],
)
def test_a_choice_of_tasks_that_leaves_none_or_names_what_is_not_there_is_refused(only: dict[str, object], said: str) -> None:
    with pytest.raises(RecipeError) as caught:
        chosen(**only)
    assert said in caught.value.message.replace("'", "")


def test_everything_that_is_wrong_with_a_choice_of_tasks_is_said_at_once() -> None:
    with pytest.raises(RecipeError) as caught:
        chosen(ids="3,babyai_2,9", splits=("z",))
    assert caught.value.message == (
        "evaluation.only.ids: expected tasks of textcraft, got 'babyai_2'; "
        "evaluation.only.ids: expected numbers of tasks of the evaluation splits, got 9; "
        "evaluation.only.splits: expected some of a, b, got 'z'"
    )
    assert caught.value.hint == "task numbers go from 1 to 8, 8 of them"
