"""Two runs are compared on the tasks that both have, and everything that speaks against it is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from agentgym_cli.report.accounting import account
from agentgym_cli.report.compare import Judged, RunComparison, Side, compare, compare_all
from agentgym_cli.report.conditions import Conditions, incomparable, read_conditions
from agentgym_cli.report.side import read_side
from agentgym_cli.store.db import Connection
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import Record
from agentgym_cli.store.task_rows import TaskRow
from tests.report.sides import make_played
from tests.store.builders import make_run, make_scheduled, make_segment, settled, write_journal

SAME = Conditions(
    env="textcraft", dialect="d", protocol="own", tasks={}, success="s", prompt="p", horizon=12, samples=1, temperature="1", chosen="all",
    attempts=3,
)  # fmt: skip


def make_task(number: int, success: int, scheduled: int = 1, **changes: object) -> TaskRow:
    row = TaskRow(
        task=f"textcraft_{number}", digest=f"d{number}", category="depth 1", scheduled=scheduled, success=success, scored=scheduled,
        infra_error=0, reward=float(success), rewards=scheduled,
    )  # fmt: skip
    return replace(row, **changes)  # type: ignore[arg-type]


def make_side(tasks: Sequence[TaskRow], run: str = "r1", conditions: Conditions = SAME, split: str = "test") -> Side:
    counted = account(
        success=sum(row.success for row in tasks),
        failure=sum(row.scored - row.success for row in tasks),
        infra_error=sum(row.infra_error for row in tasks),
        missing=sum(row.scheduled - row.scored - row.infra_error for row in tasks),
        scheduled=sum(row.scheduled for row in tasks),
    )
    judged = Judged(phase="eval", step=0, accounting=counted, played=make_played(counted), categories={}, tasks=tasks)
    return Side(
        run=run,
        recipe="craft",
        policy="local",
        status="finished",
        label=None,
        digest="d",
        drift=(),
        degraded=None,
        conditions=conditions,
        splits={split: judged},
    )


def compared(base: Sequence[int], other: Sequence[int], samples: int = 1) -> RunComparison:
    sides = [make_side([make_task(number, success, samples) for number, success in enumerate(successes)]) for successes in (base, other)]
    return compare(*sides)


def test_single_episodes_are_compared_by_mcnemars_exact_test() -> None:
    (split,) = compared([1] * 10 + [0] * 30, [1] * 8 + [0] * 2 + [1] * 11 + [0] * 19).splits
    ours = split.end_to_end
    assert (ours.tasks, ours.won, ours.lost, ours.test) == (40, 11, 2, "exact McNemar")
    assert ours.mean == pytest.approx(9 / 40)
    assert ours.p_value == pytest.approx(stats.binomtest(2, 13).pvalue)
    assert ours.significant is True
    assert ours.method == "matched pairs"
    assert ours.smallest == pytest.approx((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * 13**0.5 / 40)


def test_several_episodes_are_compared_by_permutation_with_a_bootstrap_beside_the_t_interval() -> None:
    base, other = [number % 5 for number in range(30)], [min(4, number % 5 + number % 2) for number in range(30)]
    (split,) = compared(base, other, samples=4).splits
    ours = split.end_to_end
    gaps = [(b - a) / 4 for a, b in zip(base, other, strict=True)]
    expected = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
    assert (ours.method, ours.test) == ("paired t over tasks", "permutation within tasks")
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high))
    assert ours.beside is not None
    assert (ours.beside.low, ours.beside.high) == pytest.approx((expected.low, expected.high), abs=0.02)
    # 12 tasks changed, all of them for the better: two of 2**12 swaps are as far from 0.
    assert ours.p_value == pytest.approx(2 / 2**12)


def test_few_tasks_with_several_episodes_have_a_bootstrap_that_says_how_few() -> None:
    (split,) = compared([0, 1, 2, 3], [2, 1, 2, 4], samples=4).splits
    assert split.end_to_end.method == "cluster bootstrap, few tasks (4)"
    assert split.end_to_end.beside is None


def test_tasks_that_all_change_alike_have_no_interval_of_zero_width() -> None:
    certain = compared([0] * 24, [4] * 24, samples=4).splits[0].end_to_end
    assert (certain.mean, certain.method, certain.p_value) == (1.0, "matched pairs", pytest.approx(2 / 2**24))
    assert certain.low is not None
    assert certain.low < 1.0
    alike = compared([1] * 24, [2] * 24, samples=4).splits[0].end_to_end
    assert (alike.mean, alike.low, alike.high) == (0.25, None, None)
    assert alike.why == "all tasks differ by the same, which has no scatter to make an interval of"


def test_equal_runs_have_nothing_to_test_and_say_so() -> None:
    (split,) = compared([1, 0, 1], [1, 0, 1]).splits
    ours = split.end_to_end
    assert (ours.mean, ours.p_value, ours.test, ours.significant, ours.smallest) == (0.0, None, None, None, None)
    assert ours.why == "no task came out differently"
    assert ours.low is not None
    assert ours.high is not None
    assert ours.low < 0 < ours.high


def test_tasks_of_one_run_only_are_named_and_in_no_difference() -> None:
    base = make_side([make_task(0, 1), make_task(1, 0)])
    other = make_side([make_task(1, 1), make_task(2, 1)])
    comparison = compare(base, other)
    (split,) = comparison.splits
    assert (split.only_base, split.only_other, split.pairs) == (("textcraft_0",), ("textcraft_2",), 1)
    assert (split.end_to_end.tasks, split.end_to_end.mean, split.base.scheduled) == (1, 1.0, 2)
    assert [(each.what, each.why) for each in comparison.incomparable] == [("tasks", "only tasks that both have are compared")]


def test_runs_without_a_common_task_have_no_difference() -> None:
    (split,) = compare(make_side([make_task(0, 1)]), make_side([make_task(1, 1)])).splits
    assert (split.end_to_end.mean, split.end_to_end.low, split.end_to_end.why) == (None, None, "no task counts in both runs")


def test_a_task_of_another_content_is_no_pair() -> None:
    comparison = compare(make_side([make_task(0, 1), make_task(1, 0)]), make_side([make_task(0, 1), make_task(1, 1, digest="other")]))
    (split,) = comparison.splits
    assert (split.other_content, split.pairs, split.end_to_end.won) == (("textcraft_1",), 1, 0)
    assert [each.why for each in comparison.incomparable] == ["their contents differ; they are left out"]


def test_tasks_known_by_number_alone_are_compared_with_a_remark() -> None:
    comparison = compare(make_side([make_task(0, 1, digest="")]), make_side([make_task(0, 0)]))
    assert comparison.splits[0].not_pinned == 1
    assert [each.why for each in comparison.incomparable] == ["nobody can say whether their contents were the same"]


def test_unscored_episodes_are_no_success_end_to_end_and_left_out_conditionally() -> None:
    lost = make_task(0, 0, scored=0, infra_error=1, rewards=0)
    (split,) = compare(make_side([make_task(0, 1), make_task(1, 0)]), make_side([lost, make_task(1, 1)])).splits
    assert (split.end_to_end.tasks, split.end_to_end.won, split.end_to_end.lost) == (2, 1, 1)
    assert (split.conditional.tasks, split.conditional.left_out, split.conditional.won, split.conditional.lost) == (1, 1, 1, 0)
    assert (split.reward.tasks, split.reward.left_out, split.reward.mean) == (1, 1, 1.0)


def test_tasks_that_came_out_differently_are_listed() -> None:
    (split,) = compared([1, 2, 4], [1, 3, 0], samples=4).splits
    assert [(pair.task, pair.base, pair.other) for pair in split.changed] == [
        ("textcraft_1", "2 of 4", "3 of 4"),
        ("textcraft_2", "4 of 4", "0 of 4"),
    ]


def test_several_runs_share_one_family() -> None:
    base = make_side([make_task(number, 0) for number in range(20)])
    better = [make_side([make_task(number, int(number < wins)) for number in range(20)], f"r{wins}") for wins in (6, 8, 0)]
    comparisons = compare_all(base, better).comparisons
    assert [each.splits[0].end_to_end.p_value for each in comparisons] == [pytest.approx(2 / 2**6), pytest.approx(2 / 2**8), None]
    assert [each.splits[0].end_to_end.p_adjusted for each in comparisons] == [pytest.approx(2 / 2**6), pytest.approx(4 / 2**8), None]
    assert [each.splits[0].end_to_end.family for each in comparisons] == [2, 2, 2]
    assert [each.splits[0].end_to_end.significant for each in comparisons] == [True, True, None]


def test_holm_takes_back_what_one_comparison_alone_would_claim() -> None:
    base = make_side([make_task(number, 0) for number in range(20)])
    others = [make_side([make_task(number, int(number < 6)) for number in range(20)], f"r{number}") for number in range(4)]
    alone, together = compare(base, others[0]), compare_all(base, others).comparisons
    assert alone.splits[0].end_to_end.significant is True
    assert [each.splits[0].end_to_end.p_adjusted for each in together] == [pytest.approx(8 / 2**6)] * 4
    assert [each.splits[0].end_to_end.significant for each in together] == [False] * 4


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"env": "babyai"}, "environment"),
        ({"dialect": "other"}, "dialect"),
        ({"protocol": "agenteval"}, "protocol"),
        ({"success": "other"}, "success rule"),
        ({"prompt": None}, "prompt"),
        ({"horizon": 20}, "horizon"),
        ({"samples": 4}, "samples"),
        ({"temperature": "greedy"}, "temperature"),
        ({"chosen": "the first 10"}, "chosen tasks"),
        ({"attempts": 1}, "attempts"),
    ],
)
def test_each_condition_that_differs_is_named_with_both_sides(changes: dict[str, object], what: str) -> None:
    other = replace(SAME, **changes)  # type: ignore[arg-type]
    (found,) = incomparable(SAME, other)
    assert found.what == what
    assert found.ours != found.theirs
    assert [item.what for item in incomparable(other, other)] == ([what] if None in changes.values() else [])


def test_a_policy_without_a_model_has_no_temperature_to_differ_in() -> None:
    assert list(incomparable(SAME, replace(SAME, temperature="no model"))) == []


FROZEN = (
    '{"config":{"evaluation":{"protocol":"own","horizon":12,"samples_per_task":2,"limit":5},"policy":{"sampling":{"temperature":0.7}},'
    '"retry":{"attempts":3}},"parts":{"dialect":{"textcraft.yaml":"a"},"prompt":{"p.txt":"b"},"rules":{"outcome table":"c"},'
    '"tasks.evaluation.test":{"count":"9","rows":"r"}}}'
)


def test_conditions_are_read_from_the_frozen_run() -> None:
    found = read_conditions(FROZEN, env="textcraft", policy="local")
    assert (found.protocol, found.horizon, found.samples, found.temperature, found.chosen, found.attempts) == ("own", 12, 2, "0.7", "the first 5", 3)
    assert found.tasks == {"test": "r"}
    assert read_conditions(FROZEN, env="textcraft", policy="scripted, script 1a2b").temperature == "no model"
    assert read_conditions(FROZEN.replace('"limit":5', '"temperature":"greedy"'), env="t", policy="local").temperature == "greedy"
    assert read_conditions("no JSON", env="t", policy="local").horizon is None


def test_runs_of_one_store_are_compared_by_their_latest_evaluation(store: Connection, tmp_path: Path) -> None:
    def records(run: str, wins: int) -> list[Record]:
        late = [
            record
            for number in range(12)
            for record in settled(make_scheduled(number, run=run, phase="eval_after", step=6), "success" if number < wins else "failure")
        ]
        early = settled(make_scheduled(0, run=run, phase="eval_before", step=0), "failure")
        return [make_run(run, frozen=FROZEN), make_segment(run=run), *early, *late]

    for run, wins in (("r1", 3), ("r2", 11)):
        load_into(store, write_journal(tmp_path / run, records(run, wins)))
    (comparison,) = compare_all(read_side(store, "r1"), [read_side(store, "r2")]).comparisons
    (split,) = comparison.splits
    assert (comparison.base.run, comparison.other.run, split.base_weights) == ("r1", "r2", "eval_after, step 6")
    assert (split.pairs, split.end_to_end.won, split.end_to_end.lost, split.not_pinned) == (12, 8, 0, 12)
    assert split.end_to_end.p_value == pytest.approx(2 / 2**8)
    assert [(category.name, category.end_to_end.tasks) for category in split.categories] == [("depth 1", 12)]


def test_rewards_whose_squares_no_number_holds_are_not_compared() -> None:
    base = make_side([replace(make_task(number, 1), reward=-1.7e308) for number in range(4)])
    other = make_side([replace(make_task(number, 1), reward=1.7e308) for number in range(4)])
    found = compare(base, other).splits[0].reward
    assert (found.mean, found.p_value, found.tasks, found.left_out) == (None, None, 0, 4)
    assert found.why == "rewards are too large for their squares to be added up"


def test_rewards_added_up_in_another_order_are_the_same_rewards() -> None:
    one, another = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert one != another
    base = make_side([make_task(number, 1, 3, reward=another) for number in range(30)])
    other = make_side([make_task(number, 1, 3, reward=one) for number in range(30)])
    found = compare(base, other).splits[0].reward
    assert (found.mean, found.won, found.lost, found.p_value, found.significant) == (0.0, 0, 0, None, None)
    assert found.why == "no task came out differently"


def test_rewards_of_whole_numbers_are_tested_as_exactly_as_the_successes_they_mark() -> None:
    solved = [(1, 0)] * 4 + [(0, 1)] * 14 + [(1, 1)] * 22
    base, other = (make_side([make_task(number, pair[side]) for number, pair in enumerate(solved)]) for side in (0, 1))
    split = compare(base, other).splits[0]
    # 18 tasks changed, 4 of them or fewer one way: 1 + 18 + 153 + 816 + 3,060 of 2**18 ways
    assert split.reward.p_value == pytest.approx(2 * 4048 / 2**18, rel=1e-12)
    assert split.reward.p_value == pytest.approx(split.end_to_end.p_value, rel=1e-12)
