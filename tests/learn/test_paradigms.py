"""The tables of the laptop experiments: each cell is the report's figure of that name, and nothing is claimed that an interval does not allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.paradigms import PLAN, cost_row, fixed, gain_row, horizon_row, moved, online, table


def rated(count: int, of: int, low: float, high: float) -> dict[str, Any]:
    return {"end_to_end": {"count": count, "denominator": of, "value": count / of, "low": low, "high": high}}


def part(phase: str, step: int | None, scheduled: int) -> dict[str, Any]:
    return {"phase": phase, "step": step, "accounting": {"scheduled": scheduled}}


def test_a_gain_is_the_row_of_its_split() -> None:
    change = {"points": 25.0, "low": 10.0, "high": 40.0}
    others = {"split": "unseen_goals", "before": rated(0, 4, 0.0, 0.6), "after": rated(0, 4, 0.0, 0.6), "end_to_end": {**change, "points": 0.0}}
    mine = {"split": "unseen_tasks", "before": rated(1, 8, 0.02, 0.47), "after": rated(3, 8, 0.14, 0.69), "end_to_end": change}
    row = gain_row(online("rloo", "RLOO"), {"comparisons": [others, mine]}, "unseen_tasks")
    assert row == "| RLOO | 1 | 12.5% (1 of 8; 2.0 to 47.0) | 37.5% (3 of 8; 14.0 to 69.0) | +25.0 (+10.0 to +40.0) | better |\n"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.1, 3.0, "better"), (-3.0, -0.1, "worse"), (-0.1, 0.1, "within noise"), (0.0, 2.0, "within noise"), (None, None, "n/a")],
)
def test_nothing_is_better_or_worse_whose_interval_holds_zero(low: float | None, high: float | None, said: str) -> None:
    assert moved(low, high) == said


def test_a_cost_adds_the_episodes_of_all_phases_by_what_they_were_for() -> None:
    parts = [part("warm_start", None, 240), part("demonstrate", 0, 250), part("eval_before", 0, 200), part("eval_before", 0, 80)]
    parts += [part("explore", 1, 256), part("explore", 21, 256), part("eval_after", 80, 200), part("eval_after", 80, 80)]
    report = {"parts": parts, "spending": {"tokens_sampled": {"value": 62761.0}, "clock_seconds": {"value": 390.0}}}
    assert cost_row(online("agentevol", "AgentEvol"), report) == "| AgentEvol | 1 | 80 | 490 | 512 | 560 | 62,761 | 6.5 |\n"


@pytest.mark.parametrize(("significant", "claim"), [(True, "yes"), (False, "no"), (None, "no")])
def test_a_horizon_is_compared_in_points_of_the_fixed_one_minus_the_stages(significant: bool | None, claim: str) -> None:
    change = {"mean": -0.125, "low": -0.25, "high": 0.01, "won": 1, "lost": 3, "p_adjusted": 0.625, "significant": significant}
    split = {"split": "unseen_goals", "base": rated(6, 16, 0.18, 0.61), "other": rated(4, 16, 0.1, 0.5), "end_to_end": change}
    row = horizon_row(2, {"splits": [split]}, 8, "unseen_goals")
    rates = "37.5% (6 of 16; 18.0 to 61.0) | 8 | 25.0% (4 of 16; 10.0 to 50.0)"
    assert row == f"| 2 | `unseen_goals` | {rates} | -12.5 (-25.0 to +1.0) | 1 / 3 | 0.625 | {claim} |\n"


def test_the_plan_has_three_seeds_of_every_horizon_and_one_of_every_other_algorithm() -> None:
    assert len({each.name for each in PLAN}) == len(PLAN)
    seeds = {says: {each.seed for each in PLAN if each.says == says} for says in {each.says for each in PLAN}}
    three = ("GRPO", "GRPO, always 8 turns", "GRPO, always 12 turns")
    one = ("PPO", "RLOO", "REINFORCE++", "SFT", "DPO", "AgentEvol")
    assert seeds == {says: {1, 2, 3} for says in three} | {says: {1} for says in one}


def test_a_run_is_found_by_its_whole_name(tmp_path: Path) -> None:
    (tmp_path / "runs" / "grpo_fixed_8_seed_1-laptop-20260101-000000-abcdef").mkdir(parents=True)
    assert online("grpo", "GRPO").home(tmp_path) is None
    found = fixed(8, 1).home(tmp_path)
    assert found is not None and found.name.startswith("grpo_fixed_8_seed_1-laptop")


def test_a_table_of_nothing_is_nothing() -> None:
    assert table(("a", "b"), []) == "" and table(("a", "b"), ["| 1 | 2 |\n"]) == "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
