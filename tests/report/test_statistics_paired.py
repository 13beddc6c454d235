"""Two runs on the same tasks: p-values equal enumeration and scipy's, intervals an independent formula."""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from agentgym_cli.report.statistics.multiple import holm
from agentgym_cli.report.statistics.paired import matched, mcnemar, sign_flips
from agentgym_cli.report.statistics.power import smallest_apart, smallest_paired


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_binomial_test_of_the_tasks_that_changed(won: int, lost: int) -> None:
    expected = stats.binomtest(won, won + lost).pvalue if won + lost else None
    assert mcnemar(won, lost) == (None if expected is None else pytest.approx(expected, rel=1e-9))


def test_mcnemar_of_one_against_nine_is_worked_out_by_hand() -> None:
    assert mcnemar(9, 1) == pytest.approx(2 * (1 + 10) / 2**10)


def enumerated(differences: list[float]) -> float:
    """Share of all sign patterns whose sum is as far from 0 as the observed one."""
    sums = [abs(sum(sign * value for sign, value in zip(signs, differences, strict=True))) for signs in product((1, -1), repeat=len(differences))]
    return sum(value >= abs(sum(differences)) - 1e-9 for value in sums) / len(sums)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=9))
def test_sign_flips_equal_the_enumeration_of_all_swaps(whole: list[int]) -> None:
    values = np.array(whole) / 4
    expected = pytest.approx(enumerated([value / 4 for value in whole]), rel=1e-9)
    assert sign_flips(values, 0.25) == expected
    assert sign_flips(values) == expected


def test_drawn_sign_flips_come_close_to_the_counted_ones() -> None:
    values = np.array([0.5] * 14 + [-0.25] * 12)
    counted = sign_flips(values, 0.25)
    assert counted is not None
    # 14 differences of 2 and 12 of 1, against two binomials
    ends = [(2 * (2 * a - 14) + 2 * b - 12, stats.binom.pmf(a, 14, 0.5) * stats.binom.pmf(b, 12, 0.5)) for a in range(15) for b in range(13)]
    assert counted == pytest.approx(sum(chance for end, chance in ends if abs(end) >= 16), rel=1e-9)
    drawn = sign_flips(values)
    assert drawn == sign_flips(values) == pytest.approx(counted, abs=4 * sqrt(counted * (1 - counted) / 20_000))


def test_tasks_that_do_not_differ_change_no_p_value_and_alone_have_none() -> None:
    assert sign_flips(np.array([0.5, 0.5, 0.0, 0.0, -0.25]), 0.25) == sign_flips(np.array([0.5, 0.5, -0.25]), 0.25)
    assert sign_flips(np.zeros(5)) is sign_flips(np.array([])) is mcnemar(0, 0) is None


def test_the_interval_of_matched_pairs_adds_half_a_task_to_each_cell() -> None:
    ours = matched(50, 12, 4)
    p12, p21 = 12.5 / 52, 4.5 / 52
    half = stats.norm.ppf(0.975) * sqrt((p12 + p21 - (p12 - p21) ** 2) / 52)
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((8 / 52 - half, 8 / 52 + half))
    assert matched(0, 0, 0) is None


def test_the_interval_of_matched_pairs_has_a_width_though_no_task_changed() -> None:
    ours = matched(30, 0, 0)
    assert ours is not None
    assert ours.low < 0 < ours.high


def test_holm_multiplies_from_the_smallest_and_never_falls() -> None:
    assert holm([0.01, 0.04, 0.03, None, 0.005]) == pytest.approx((0.03, 0.06, 0.06, None, 0.02))
    assert holm([0.6, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()


def test_the_smallest_difference_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(5)
    tasks, spread = 400, 0.5
    smallest = smallest_paired(tasks, tasks * spread**2)
    assert smallest == pytest.approx((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * spread / 20)
    assert smallest is not None
    found = stats.ttest_1samp(rng.normal(smallest, spread, size=(4000, tasks)), 0, axis=1).pvalue <= 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.02)


def test_without_scatter_the_smallest_difference_is_unknown() -> None:
    assert smallest_paired(0, 0.0) is smallest_paired(10, 0.0) is smallest_apart(0.0, 0.0) is None
    assert smallest_apart(0.0009, 0.0016) == pytest.approx(2.8015852 * 0.05)
