"""Published rows ship with their denominators, stand beside a run, and are told apart only where the data can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentgym_cli.report.accounting import account
from agentgym_cli.report.conditions import Conditions
from agentgym_cli.report.figures import Accounting
from agentgym_cli.report.paper_rows import paper_grids
from agentgym_cli.report.papers import PaperRow, Result, beside_papers, published

PAPER = Conditions(
    env="webarena", dialect="d", protocol="agentgym-rl", tasks={}, success="s", prompt="p", horizon=15, samples=1, temperature="1",
    chosen="all", attempts=3,
)  # fmt: skip


def counted(success: int, scheduled: int, infra: int = 0) -> Accounting:
    return account(success=success, failure=scheduled - success - infra, infra_error=infra, missing=0, scheduled=scheduled)


def beside(success: int, scheduled: int, model: str, env: str = "textcraft", **changes: object) -> PaperRow:
    conditions = replace(PAPER, env=env, **({"horizon": 30} | changes))  # type: ignore[arg-type]
    rows = beside_papers([Result(phase="eval", split="test", step=0, category="", accounting=counted(success, scheduled))], conditions)
    return next(row for row in rows if row.model == model)


def test_91_of_100_against_93_of_100_is_within_noise_in_both_directions() -> None:
    above, below = beside(93, 100, "ScalingInter-7B"), beside(91, 100, "o3")
    for row, points in ((above, 2.0), (below, -2.0)):
        assert (row.points, row.within_noise) == (pytest.approx(points), True)
        assert row.low is not None
        assert row.high is not None
        assert row.low < 0 < row.high
        # z(0.975) + z(0.80) = 2.80 standard errors of two shares near 0.92: about 11 points
        assert row.smallest_points == pytest.approx(2.8 * 100 * (0.0819 / 100 + 0.0651 / 100) ** 0.5, rel=0.15)


def test_91_of_100_against_42_of_100_is_not_within_noise() -> None:
    row = beside(91, 100, "Qwen2.5-7B")
    assert (row.points, row.within_noise) == (pytest.approx(49.0), False)
    assert (row.theirs.count, row.theirs.denominator, row.protocol) == (42, 100, "agentgym-rl")


def test_a_run_stands_beside_a_paper_with_both_denominators_and_what_the_world_ended() -> None:
    result = Result(phase="eval", split="test", step=6, category="", accounting=counted(60, 100, infra=10))
    rows = [row for row in beside_papers([result], replace(PAPER, env="textcraft", horizon=12)) if row.model in ("o3", "Qwen2.5-7B")]
    assert [(row.ours, row.accounting.conditional.value) for row in rows] == [(result.accounting.end_to_end, pytest.approx(2 / 3))] * 2
    own, papers = paper_grids(rows)
    # Wilson: 60 of 100, 60 of 90, 10 of 100.
    assert own.rows == (
        (
            "eval / test, step 6",
            "60.0% 60 of 100\n50.2 to 69.1%",
            "66.7% 60 of 90\n56.4 to 75.5%",
            "10.0% 10 of 100\n5.5 to 17.4%",
            "60.0% to 70.0%",
        ),
    )
    assert {row[1] for row in papers.rows} == {"eval / test\n60.0% 60 of 100\nconditional 66.7% 60 of 90"}
    assert papers.caption.endswith("not like for like: tasks, horizon")


def test_categories_stand_beside_categories_with_their_own_denominators() -> None:
    result = Result(phase="eval", split="test", step=0, category="depth 3", accounting=counted(10, 25))
    rows = beside_papers([result], replace(PAPER, env="textcraft"))
    assert [(row.model, row.theirs.count, row.theirs.denominator, row.points) for row in rows] == [
        ("AgentGym-RL-3B", 7, 25, pytest.approx(12.0)),
    ]


def test_a_result_without_data_has_no_distance() -> None:
    row = beside(0, 0, "o3")
    assert (row.points, row.low, row.within_noise, row.ours.why) == (None, None, None, "no episode was scheduled")


def test_a_row_without_a_denominator_has_a_distance_and_no_claim() -> None:
    result = Result(phase="eval", split="test", step=0, category="CMS", accounting=counted(3, 15))
    row = next(row for row in beside_papers([result], PAPER) if row.model == "Qwen2.5-7B")
    assert (row.points, row.within_noise, row.theirs.why) == (pytest.approx(20 - 6.67), None, "the paper gives no number of tasks")


def named(row: PaperRow) -> dict[str, tuple[str, str]]:
    return {each.what: (each.ours, each.theirs) for each in row.incomparable}


def test_the_papers_tasks_are_never_said_to_be_the_runs() -> None:
    assert named(beside(13, 50, "ScalingInter-7B", env="webarena", horizon=15)) == {"tasks": ("as frozen", "known by number alone")}


def test_every_departure_from_the_papers_procedure_is_named() -> None:
    row = beside(30, 40, "o3", protocol="own", horizon=12, samples=4, temperature="greedy", chosen="the first 10")
    assert named(row) == {
        "tasks": ("as frozen", "known by number alone"),
        "protocol": ("own", "agentgym-rl"),
        "horizon": ("12", "30 in the scripts, 20 in the paper"),
        "samples": ("4", "1"),
        "temperature": ("greedy", "1"),
        "chosen tasks": ("the first 10", "all"),
        "denominator": ("40 episodes", "100 tasks"),
    }


def test_what_is_not_known_of_a_run_is_named_too() -> None:
    row = beside(1, 2, "o3", protocol=None, horizon=None, samples=None, temperature=None, chosen=None)
    assert [named(row)[what][0] for what in ("protocol", "horizon", "samples", "temperature")] == ["not known"] * 4


def test_environments_without_published_rows_have_none() -> None:
    assert beside_papers([Result(phase="eval", split="test", step=0, category="", accounting=counted(1, 2))], replace(PAPER, env="mine")) == ()


def test_every_percentage_is_a_count_of_its_denominator() -> None:
    odd = [row for row in published() if row.of is not None and row.count is not None and abs(100 * row.count / row.of - row.percent) > 0.0501]
    assert odd == []
    assert {row.env: row.of for row in published() if row.model == "AgentGym-RL-7B" and not row.category} == {
        "textcraft": 100, "babyai": 90, "searchqa": 400, "sciworld": 200, "webarena": 50,
    }  # fmt: skip


def test_categories_add_up_to_their_rows_except_where_the_note_says_so() -> None:
    for whole in (row for row in published() if not row.category):
        parts = [row for row in published() if row.category and (row.env, row.model) == (whole.env, whole.model)]
        if sum(part.of or 0 for part in parts) == whole.of:
            total = sum(part.count or 0 for part in parts)
            said = whole.note == f"its categories add up to {total} of {whole.of}"
            assert said is (abs(100 * total / whole.of - whole.percent) > 0.0501)
    noted = [row.model for row in published() if row.note.startswith("its categories")]
    assert noted == ["GPT-4o", "Qwen-Max", "DeepSeek-V3"]
