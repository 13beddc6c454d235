"""Every scheduled episode stands under one outcome and one reason, averages are named, and what a success took counts everything spent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from agentgym_cli.report.accounting import account, account_cells, averages, each, ledger
from agentgym_cli.report.figures import Each, Macro, Tally
from agentgym_cli.report.frozen import FrozenFacts, read_facts
from agentgym_cli.report.jsonout import to_json
from agentgym_cli.report.phrases import time_span
from agentgym_cli.report.spending import Amount, spend
from agentgym_cli.report.statistics.intervals import Estimate, mean_of
from agentgym_cli.store.db import Connection
from agentgym_cli.store.records import Record
from agentgym_cli.store.rows import ReasonRow, SegmentRow
from agentgym_cli.store.task_rows import CellRow, SpendingRow
from agentgym_cli.verbs.recording import utc_now
from tests.report.runs import evaluation, printed, report_of
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, make_turn, settled


def stop(stop: str, outcome: str, episodes: int, cause: str | None = None, induced: int = 0) -> ReasonRow:
    return ReasonRow(
        phase="eval", split="test", step=0, category="", horizon=6, stop=stop, cause=cause, outcome=outcome, episodes=episodes,
        action_induced=induced, example="",
    )  # fmt: skip


def test_promise_01_the_counts_sum_to_the_schedule_and_say_so() -> None:
    rows = [
        stop("done", "success", 60), stop("horizon", "failure", 20), stop("done", "failure", 10), stop("env_error", "infra_error", 5, "timeout", 2),
        stop("env_deadline", "infra_error", 2, "timeout"), stop("policy_unavailable", "infra_error", 1), stop("missing", "missing", 1),
        stop("run_budget", "missing", 1),
    ]  # fmt: skip
    kept = ledger(rows, left_out=50)
    assert kept.failure == (Tally(why="horizon", episodes=20), Tally(why="done", episodes=10))
    assert kept.infra_error == (Tally(why="timeout", episodes=7), Tally(why="policy_unavailable", episodes=1))
    assert kept.sentence == (
        "60 success + 30 failure (horizon 20, done 10) + 8 infra error (timeout 7, policy_unavailable 1)"
        " + 2 missing (no attempt 1, run_budget 1) = 100 scheduled"
    )
    assert (kept.scheduled, kept.left_out, kept.action_induced) == (100, 50, 2)


def test_promise_01_an_outcome_that_nobody_knows_is_refused() -> None:
    with pytest.raises(AssertionError, match="exactly one outcome"):
        ledger([stop("done", "victory", 1)], left_out=None)


def test_the_macro_average_weighs_scenarios_alike_and_the_pooled_one_episodes() -> None:
    small = account(success=9, failure=1, infra_error=0, missing=0, scheduled=10)
    large = account(success=10, failure=80, infra_error=10, missing=0, scheduled=100)
    empty = account(success=0, failure=0, infra_error=4, missing=0, scheduled=4)
    pooled = account(success=19, failure=81, infra_error=14, missing=0, scheduled=114)
    both = averages("splits", pooled, {"small": small, "large": large, "empty": empty})
    assert both.pooled.end_to_end.value == 19 / 114
    assert both.macro_end_to_end.value == pytest.approx((0.9 + 0.1 + 0.0) / 3)
    assert both.macro_conditional.value == pytest.approx((0.9 + 10 / 90) / 2)
    assert (both.macro_conditional.over, both.macro_conditional.without) == (("small", "large"), ("empty",))
    assert both.macro_infra_share.value == pytest.approx((0 + 0.1 + 1) / 3)


def test_the_interval_of_a_macro_average_adds_the_squares_of_its_scenarios() -> None:
    ours = mean_of([Estimate(value=0.5, low=0.2, high=0.7), Estimate(value=0.9, low=0.5, high=1.0)])
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((0.7 - (0.09 + 0.16) ** 0.5 / 2, 0.7 + (0.04 + 0.01) ** 0.5 / 2))
    nothing = account(success=0, failure=0, infra_error=0, missing=0, scheduled=0)
    assert averages("splits", nothing, {"a": nothing}).macro_end_to_end == Macro(value=None, low=None, high=None, over=(), without=("a",))


def test_cells_of_alike_tasks_count_as_their_tasks_one_by_one() -> None:
    kinds = [(25, 4, 4, 4, 0), (10, 4, 1, 3, 1), (5, 4, 0, 2, 0)]
    cells = [
        CellRow(phase="eval", split="t", step=0, category="", scheduled=n, success=x, scored=m, infra_error=f, tasks=tasks)
        for tasks, n, x, m, f in kinds
    ]
    ours = account_cells(cells)
    assert (ours.scheduled, ours.success, ours.failure, ours.infra_error, ours.missing) == (160, 110, 30, 10, 10)
    assert (ours.end_to_end.method, ours.conditional.denominator) == ("t over tasks", 140)
    assert ours.end_to_end.beside is not None
    assert ours.end_to_end.low is not None
    assert ours.end_to_end.beside.method == "cluster bootstrap"
    assert ours.end_to_end.beside.low == pytest.approx(ours.end_to_end.low, abs=0.03)


def test_what_a_success_took_is_undefined_without_one() -> None:
    assert each("tokens", 300, 4) == Each(what="tokens", spent=300, successes=4, value=75.0)
    assert each("tokens", 300, 0) == Each(what="tokens", spent=300, successes=0, value=None, why="no success")
    assert each("tokens", None, 4, "not kept") == Each(what="tokens", spent=None, successes=4, value=None, why="not kept")


SPENT = SpendingRow(
    attempts=10, infra_error=2, turns=50, tokens_read=3_000_000, tokens_sampled=500_000, attempt_seconds=900.0, policy_seconds=800.0,
    env_seconds=50.0, run_seconds=1800.0,
)  # fmt: skip
SEGMENT = SegmentRow(
    segment=1, resumed_from_step=None, started="2025-01-01T00:00:00+00:00", ended="2025-01-01T02:00:00+00:00", status="finished", drift=(),
    superseded_attempts=0, superseded_outcomes=0, superseded_records=0,
)  # fmt: skip
NOTHING = read_facts("{}")


def facts(**changes: object) -> FrozenFacts:
    return replace(NOTHING, **changes)  # type: ignore[arg-type]


def test_gpu_hours_and_cost_are_of_everything_and_for_each_success() -> None:
    ours = spend(SPENT, [SEGMENT, SEGMENT], facts(gpus=8, price_read=0.5, price_sampled=2.0), successes=5)
    assert (ours.clock_seconds.value, ours.gpu_hours.value, ours.cost.value) == (14_400.0, 32.0, 2.5)
    assert {each.what: each.value for each in ours.per_success} == {
        "tokens read": 600_000, "tokens sampled": 100_000, "seconds on the clock": 2880.0, "GPU-hours": 6.4, "cost": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "why"),
    [({}, "no GPUs in the frozen run"), ({"gpus": 0}, "no GPUs in the frozen run"), ({"endpoint": True}, "the policy is served elsewhere")],
)
def test_gpu_hours_nobody_knows_are_none_with_the_reason(changes: dict[str, object], why: str) -> None:
    ours = spend(SPENT, [SEGMENT], facts(**changes), successes=1)
    assert ours.gpu_hours.value is None
    assert why in (ours.gpu_hours.why or "")
    assert ours.cost == Amount(value=None, why="no prices in policy.endpoint")
    assert [each.why for each in ours.per_success if each.value is None] == [ours.gpu_hours.why, ours.cost.why]


def test_a_run_that_has_not_ended_has_spent_what_its_attempts_say() -> None:
    assert spend(SPENT, [replace(SEGMENT, ended=None)], NOTHING, successes=1).clock_seconds == Amount(value=1800.0)
    unknown = spend(replace(SPENT, run_seconds=None), [replace(SEGMENT, ended=None)], NOTHING, successes=1)
    assert unknown.clock_seconds.value is None
    assert "going on" in (unknown.clock_seconds.why or "")


@pytest.mark.slow
def test_spending_counts_retried_and_superseded_attempts_and_latency_every_turn(store: Connection, tmp_path: Path) -> None:
    scheduled = make_scheduled(0, phase="train", split="train", step=2)
    turns = tuple(make_turn(number, env_seconds=number / 100, policy_seconds=number / 10) for number in range(1, 102))
    first = make_attempt(scheduled, "infra_error", turns_count=101, run_tokens_read=100, run_seconds=5.0)
    first = replace(first, turns=turns)
    second = make_attempt(scheduled, "success", attempt=2, run_tokens_read=250, run_seconds=9.0)
    again = replace(scheduled, segment=2)
    segments: list[list[Record]] = [
        [make_run(), make_segment(1), scheduled, first, second, make_outcome(second, attempts=2, first="infra_error")],
        [make_segment(2, resumed=1), *settled(again, "success", turns=0, run_tokens_read=400, run_seconds=12.0)],
    ]
    report = report_of(store, tmp_path / "r1", *segments)
    spent = report.spending
    assert (spent.attempts, spent.infra_errors, spent.successes) == (3, 1, 1)
    assert (spent.tokens_read.value, spent.clock_seconds.value) == (400, 12.0)
    assert [(latency.phase, latency.split) for latency in report.latencies] == [(None, None), ("train", None), ("train", "train")]
    assert {latency.turns for latency in report.latencies} == {103}
    latency = report.latencies[-1]
    # 101 turns of 0.01 to 1.01 s and two of 0.01 s: the 52nd and the 97.9th of 103
    assert (latency.env_p50, latency.env_p95) == pytest.approx((0.50, 0.959))


def test_stages_of_the_horizon_are_accounted_for_apart(store: Connection, tmp_path: Path) -> None:
    records = [
        record
        for step, horizon, outcome in ((1, 6, "failure"), (2, 6, "success"), (3, 9, "success"), (4, 9, "infra_error"))
        for number in range(3)
        for record in settled(make_scheduled(number, phase="train", split="train", step=step, horizon=horizon), outcome)
    ]
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), *records])
    found = [(stage.horizon, stage.first_step, stage.last_step, stage.accounting.success, stage.accounting.scheduled) for stage in report.stages]
    assert found == [(6, 1, 2, 3, 6), (9, 3, 4, 3, 6)]
    assert [stage.accounting.infra_error for stage in report.stages] == [0, 3]


def test_several_splits_have_both_averages_and_every_part_its_ledger(store: Connection, tmp_path: Path) -> None:
    hard = [record for number in range(4) for record in settled(make_scheduled(number, split="hard"), "failure")]
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), *evaluation(("success",) * 12), *hard])
    (found,) = report.averages
    assert (found.phase, found.step, found.averages.scenarios) == ("eval", 0, "splits")
    assert (found.averages.pooled.end_to_end.value, found.averages.macro_end_to_end.value) == (0.75, 0.5)
    assert [part.ledger.sentence for part in report.parts] == [
        "0 success + 4 failure (horizon 4) + 0 infra error + 0 missing = 4 scheduled",
        "12 success + 0 failure + 0 infra error + 0 missing = 12 scheduled",
    ]
    assert [{each.what: each.value for each in part.per_success} for part in report.parts] == [
        {"tokens sampled": None, "attempt seconds": None},
        {"tokens sampled": 8.0, "attempt seconds": 1.0},
    ]


def test_a_run_is_set_beside_the_papers_of_its_environment(store: Connection, tmp_path: Path) -> None:
    report = report_of(store, tmp_path / "r1", [make_run(), make_segment(), *evaluation(("success",) * 91 + ("failure",) * 9)])
    found = {(row.model, row.category): row.within_noise for row in report.papers if not row.category}
    assert found[("o3", "")] is True
    assert found[("Qwen2.5-7B", "")] is False
    assert ("AgentGym-RL-3B", "depth 1") in {(row.model, row.category) for row in report.papers}


def test_the_sum_of_outcomes_and_the_papers_are_values_of_the_json_form(store: Connection, tmp_path: Path) -> None:
    outcomes = ("success", "failure", "infra_error", "missing")
    said = json.loads(to_json(report_of(store, tmp_path / "r1", [make_run(), make_segment(), *evaluation(outcomes)])))
    assert said["parts"][0]["ledger"]["sentence"] == (
        "1 success + 1 failure (horizon 1) + 1 infra error (server_5xx 1) + 1 missing (no attempt 1) = 4 scheduled"
    )
    assert {row["env"] for row in said["papers"]} == {"textcraft"}
    assert said["spending"]["gpu_hours"] == {"value": None, "why": "no GPUs in the frozen run"}


def test_first_attempts_of_several_samples_are_clustered_by_task(store: Connection, tmp_path: Path) -> None:
    """Four samples of each of 24 tasks, all alike: of every fourth task all first attempts end in infra errors, and the second ones succeed."""
    records: list[Record] = [make_run(), make_segment()]
    for task in range(24):
        for sample in range(4):
            scheduled = make_scheduled(task, sample=sample)
            if task % 4 == 0:
                last = make_attempt(scheduled, "success", 2)
                records += [scheduled, make_attempt(scheduled, "infra_error", 1), last, make_outcome(last, 2, first="infra_error")]
            else:
                records += settled(scheduled, "success" if task % 4 == 1 else "failure")
    first = report_of(store, tmp_path / "r1", records).parts[0].first_attempts
    found = first.accounting
    assert found is not None
    assert (first.retried, found.success, found.scored, found.infra_error) == (24, 24, 72, 24)
    for rate, share, tasks in ((found.end_to_end, 1 / 4, 24), (found.conditional, 1 / 3, 18), (found.infra_share, 1 / 4, 24)):
        # Samples of a task are all alike, so the interval is that of one episode a task, with t over tasks where there are 20.
        reach = stats.t.ppf(0.975, tasks - 1) if tasks >= 20 else stats.norm.ppf(0.975)
        error = share * (1 - share) / (tasks - 1 if tasks >= 20 else tasks)
        spread = reach**2 * error / (share * (1 - share))
        half = reach / (1 + spread) * (error + spread * error / (4 * share * (1 - share))) ** 0.5
        centre = (share + spread / 2) / (1 + spread)
        assert rate.method == ("t over tasks" if tasks >= 20 else "wilson over tasks")
        assert (rate.low, rate.high) == pytest.approx((centre - half, centre + half))


def test_demonstrations_cost_their_share_and_are_no_successes_of_the_policy(store: Connection, tmp_path: Path) -> None:
    """30 demonstrations of the oracle, which samples nothing, then 10 attempts of 8 tokens, 4 of them successes."""
    records: list[Record] = [make_run(), make_segment()]
    for number in range(30):
        records += settled(make_scheduled(number, phase="warm_start", split="train", step=0), "success", action_tokens=0)
    records += evaluation(["success"] * 4 + ["failure"] * 6, "eval_after", 6)
    report = report_of(store, tmp_path / "r1", records)
    spent = report.spending
    assert (spent.attempts, spent.successes, spent.demonstrated, spent.tokens_sampled.value) == (40, 4, 30, 80.0)
    assert {item.what: item.value for item in spent.per_success}["tokens sampled"] == 20.0
    assert "4 of the policy; 30 more of demonstrations, whose attempts are in the sums" in " ".join(printed(report).split())


def test_what_was_spent_is_known_by_phase(store: Connection, tmp_path: Path) -> None:
    """Context of 20 tokens at each of the 2 turns of an attempt, at 5 and 10 for a million tokens."""
    prices = '{"config":{"policy":{"endpoint":{"price_per_million_input":5.0,"price_per_million_output":10.0}}}}'
    records = [make_run(frozen=prices), make_segment(), *evaluation(["success"] * 4 + ["failure"] * 6, "eval_after", 6)]
    records += evaluation(["failure"] * 5, "eval_before", 0)
    before, after = report_of(store, tmp_path / "r1", records).spending.phases
    assert [(item.phase, item.attempts, item.successes) for item in (before, after)] == [("eval_before", 5, 0), ("eval_after", 10, 4)]
    assert (after.tokens_read.value, after.tokens_sampled.value, after.attempt_seconds.value) == (400.0, 80.0, 10.0)
    assert after.cost.value == pytest.approx((400 * 5 + 80 * 10) / 1e6)
    assert {item.what: item.value for item in after.per_success}["attempt seconds"] == 2.5
    assert {item.why for item in before.per_success} == {"no success"}


def test_a_run_of_less_than_a_second_took_some_time() -> None:
    short = replace(SEGMENT, started="2025-01-01T00:00:00.250+00:00", ended="2025-01-01T00:00:01.000+00:00")
    assert spend(SPENT, [short], facts(), successes=1).clock_seconds == Amount(value=0.75)
    assert time_span(short.started, short.ended) == "2025-01-01T00:00:00Z to 2025-01-01T00:00:01Z"


def test_moments_are_recorded_to_the_millisecond() -> None:
    assert len(utc_now()) == len("2025-01-01T00:00:00.250+00:00")
