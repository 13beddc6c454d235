"""Intervals equal those of independent formulas, and are never claimed without data."""

from __future__ import annotations

from math import sqrt
from statistics import mean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from agentgym_cli.report.statistics.intervals import TaskSums, difference, mean_over_tasks, over_tasks, wilson
from agentgym_cli.report.statistics.paired import paired


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 2000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_wilson_equals_scipys(pair: tuple[int, int]) -> None:
    count, total = pair
    expected = stats.binomtest(count, total).proportion_ci(method="wilson")
    ours = wilson(count, total)
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 10_000), st.data())
def test_promise_04_an_interval_is_never_of_zero_width_and_holds_its_share(total: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, total))
    ours = wilson(count, total)
    assert ours is not None
    assert 0 <= ours.low <= count / total <= ours.high <= 1
    assert ours.high - ours.low > 0


def test_promise_04_no_data_has_no_interval() -> None:
    nothing = TaskSums(tasks=0, xx=0, xn=0, nn=0)
    assert wilson(0, 0) is over_tasks(0, 0, nothing) is difference(0, 0, 1, 2) is difference(1, 2, 0, 0) is paired(0, 0, 0) is None


def sums(tasks: list[tuple[int, int]]) -> TaskSums:
    return TaskSums(tasks=len(tasks), xx=sum(x * x for x, _ in tasks), xn=sum(x * n for x, n in tasks), nn=sum(n * n for _, n in tasks))


def scored(share: float, error: float, tasks: int) -> tuple[float, float]:
    """Ends of the values q with |share - q| <= t * error * sqrt(q (1 - q) / (share (1 - share))), found by bisection."""
    reach = stats.t.ppf(0.975, tasks - 1)

    def beyond(q: float) -> float:
        return abs(share - q) - reach * error * sqrt(q * (1 - q) / (share * (1 - share)))

    return optimize.brentq(beyond, 1e-12, share, xtol=1e-15), optimize.brentq(beyond, share, 1 - 1e-12, xtol=1e-15)


def test_with_equal_samples_the_interval_over_tasks_is_the_t_interval_of_task_means() -> None:
    successes = [number * 7 % 5 for number in range(25)]
    means = [x / 4 for x in successes]
    ours = over_tasks(sum(successes), 100, sums([(x, 4) for x in successes]))
    again = mean_over_tasks(25, sum(means), sum(value * value for value in means))
    assert ours is not None
    assert again is not None
    assert (ours.low, ours.high) == pytest.approx(scored(mean(means), stdev(means) / sqrt(25), 25), rel=1e-9)
    assert (again.low, again.high) == pytest.approx((ours.low, ours.high), rel=1e-12)
    assert ours.method == again.method == "t over tasks"


def test_with_many_tasks_the_interval_over_tasks_is_the_mean_and_t_errors_on_both_sides() -> None:
    means = [number % 5 / 4 for number in range(20_000)]
    half = stats.t.ppf(0.975, 19_999) * stdev(means) / sqrt(20_000)
    ours = over_tasks(40_000, 80_000, sums([(number % 5, 4) for number in range(20_000)]))
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-6)


def test_with_unequal_samples_the_interval_over_tasks_is_the_ratio_estimators() -> None:
    tasks = [(number % 3, 2 + number % 2) for number in range(30)]
    total = sum(n for _, n in tasks)
    share = sum(x for x, _ in tasks) / total
    error = sqrt(30 / 29 * sum((x - share * n) ** 2 for x, n in tasks)) / total
    ours = over_tasks(sum(x for x, _ in tasks), total, sums(tasks))
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx(scored(share, error, 30), rel=1e-9)


def test_with_few_tasks_the_interval_is_wilsons_on_tasks() -> None:
    ours = over_tasks(30, 76, sums([(number % 4, 4) for number in range(19)]))
    expected = wilson(30 / 76 * 19, 19)
    assert ours is not None
    assert expected is not None
    assert (ours.low, ours.high, ours.method) == (expected.low, expected.high, "wilson over tasks")


def test_repeats_that_all_agree_do_not_make_an_interval_certain() -> None:
    ours = over_tasks(400, 400, sums([(4, 4)] * 100))
    expected = stats.binomtest(100, 100).proportion_ci(method="wilson")
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((expected.low, 1.0))


def test_repeats_of_a_task_narrow_nothing_when_they_only_repeat_it() -> None:
    once = wilson(12, 19)
    often = over_tasks(120, 190, sums([(10, 10)] * 12 + [(0, 10)] * 7))
    assert once is not None
    assert often is not None
    assert (often.low, often.high) == pytest.approx((once.low, once.high))


@pytest.mark.parametrize(
    ("new", "base", "low", "high"),
    [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((10, 10), (0, 20), 0.6791, 1.0), ((10, 10), (0, 10), 0.6075, 1.0)],
)
def test_differences_equal_newcombes_published_table(new: tuple[int, int], base: tuple[int, int], low: float, high: float) -> None:
    """Newcombe 1998, Statistics in Medicine 17:873-890, table II, method 10."""
    ours = difference(*new, *base)
    assert ours is not None
    assert (round(ours.low, 4), round(ours.high, 4)) == (low, high)


def test_paired_differences_equal_scipys_t_interval() -> None:
    differences = [(-1.0, 0.0, 1.0, 1.0, 0.5)[number % 5] for number in range(40)]
    expected = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    ours = paired(40, sum(differences), sum(d * d for d in differences))
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_pairs_that_are_few_or_all_equal_give_no_interval() -> None:
    assert paired(19, 5.0, 5.0) is None
    assert paired(100, 100.0, 100.0) is None
