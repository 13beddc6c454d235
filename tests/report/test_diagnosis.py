"""Every rule fires where it should, is quiet where it should, and says so where there is nothing to judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym_cli.report.diagnosis import RULES, diagnose
from agentgym_cli.report.diagnosis_playing import waited_for
from agentgym_cli.report.signals import Signals
from agentgym_cli.report.verdict import FOUND, NO_DATA, QUIET, Finding
from agentgym_cli.store import diagnosis_queries
from agentgym_cli.store.db import Connection, rows_of
from agentgym_cli.store.diagnosis_rows import AgeRow, AxisRow, CutRow, LoopRow, VerdictRow
from agentgym_cli.store.loader import load_into
from agentgym_cli.store.records import Record
from tests.report.runs import report_of
from tests.report.signals import bent, flat, healthy, make_counts, make_gap, make_latency, make_spending, make_verdicts, silent
from tests.store.builders import make_attempt, make_outcome, make_run, make_scheduled, make_segment, make_turn, write_journal


def metric(name: str, values: Sequence[tuple[int, float]]) -> Signals:
    base = healthy()
    return healthy(metrics={**base.metrics, name: values})


# Just over and just at each threshold.
FIRES = {
    "groups without variance": metric("groups_zero_variance", flat(6.0)),
    "dropped groups": metric("groups_dropped", [(1, 7.0)]),
    "truncation": healthy(cuts=[CutRow(phase="train", horizon=8, scheduled=20, truncated=7)]),
    "invalid actions": healthy(counts=[make_counts(turns=100, invalid=11)]),
    "entropy": metric("entropy", bent(1.0, 0.19)),
    "KL": metric("approx_kl", [*flat(0.01, 11), (12, 0.11)]),
    "clip fraction": metric("clip_fraction", bent(0.1, 0.31)),
    "gradient norm": metric("gradient_norm", [*flat(0.5, 11), (12, 5.1)]),
    "trainer and sampler": metric("logp_difference_max", [(7, 0.11)]),
    "policy age": healthy(ages=[AgeRow(age=0, tokens=60), AgeRow(age=1, tokens=29), AgeRow(age=2, tokens=11)]),
    "reward without verifier": healthy(verdicts=make_verdicts(lambda step: 0.1 * step, lambda step: 5)),
    "repeated actions": healthy(loops=LoopRow(attempts=100, looping=11, example="train/train/1/textcraft_1/0")),
    "slow world": healthy(latencies=[make_latency(5.1)]),
    "stalls": healthy(gaps=[make_gap(61.0)]),
}
QUIETS = {
    "groups without variance": metric("groups_zero_variance", flat(5.0)),
    "dropped groups": metric("groups_dropped", [(1, 6.0)]),
    "truncation": healthy(
        cuts=[CutRow(phase="train", horizon=8, scheduled=20, truncated=6), CutRow(phase="train", horizon=9, scheduled=19, truncated=19)]
    ),
    "invalid actions": healthy(counts=[make_counts(turns=100, invalid=10), make_counts("eval", turns=99, invalid=99)]),
    "entropy": metric("entropy", bent(1.0, 0.2)),
    "KL": metric("approx_kl", flat(0.1)),
    "clip fraction": metric("clip_fraction", bent(0.9, 0.3)),
    "gradient norm": metric("gradient_norm", [*flat(0.5, 11), (12, 5.0)]),
    "trainer and sampler": metric("logp_difference_max", [(7, 0.1)]),
    "policy age": healthy(ages=[AgeRow(age=1, tokens=90), AgeRow(age=2, tokens=10)]),
    "reward without verifier": healthy(verdicts=make_verdicts(lambda step: 0.1 * step, lambda step: 5 if step < 9 else 6)),
    "repeated actions": healthy(loops=LoopRow(attempts=100, looping=10, example=None)),
    "slow world": healthy(latencies=[make_latency(5.0)], spending=make_spending(100.0, 50.0)),
    "stalls": healthy(gaps=[make_gap(1000.0, typical=50.0), make_gap(60.0)]),
}


def found(signals: Signals) -> dict[str, Finding]:
    return {finding.rule: finding for finding in diagnose(signals, "r1")}


def test_groups_that_are_no_baselines_are_not_said_to_have_variance() -> None:
    without = {name: values for name, values in healthy().metrics.items() if name != "groups_zero_variance"}
    finding = found(healthy(metrics=without))["groups without variance"]
    assert (finding.state, finding.said) == (NO_DATA, "groups are no baselines")


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_fires_alone_just_above_its_threshold(name: str) -> None:
    states = {rule: finding.state for rule, finding in found(FIRES[name]).items()}
    assert states == {rule.name: FOUND if rule.name == name else QUIET for rule in RULES}


@pytest.mark.parametrize("name", QUIETS)
def test_a_rule_is_quiet_at_its_threshold(name: str) -> None:
    assert found(QUIETS[name])[name].state == QUIET


def test_every_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    assert [rule.name for rule in RULES] == list(FIRES) == list(QUIETS)


def test_a_run_that_kept_nothing_has_no_data_for_any_rule() -> None:
    assert {finding.state for finding in diagnose(silent(), "r1")} == {NO_DATA}


@pytest.mark.parametrize(
    ("env_p95", "world", "state"),
    [(0.51, 50.1, FOUND), (0.5, 50.1, QUIET), (0.51, 50.0, QUIET)],
    ids=["slow and most of the time", "quick", "half of the time"],
)
def test_a_world_that_takes_more_than_half_of_the_time_is_slow_where_its_turns_can_be_noticed(env_p95: float, world: float, state: str) -> None:
    assert found(healthy(latencies=[make_latency(env_p95)], spending=make_spending(100.0, world)))["slow world"].state == state


def test_a_reward_that_rises_within_its_noise_is_not_called_out() -> None:
    noisy = make_verdicts(lambda step: [0.0, 1.0, 0.1, 1.0][step % 4] + 0.01 * step, lambda step: 5)
    assert found(healthy(verdicts=noisy))["reward without verifier"].state == QUIET


def test_a_reward_that_rises_while_the_verifier_does_not_is_called_out_with_both_numbers() -> None:
    # First third: steps 1 to 4, mean 0.25; last third: 9 to 12, mean 1.05.
    said = found(FIRES["reward without verifier"])["reward without verifier"].said
    assert "mean reward +0.8" in said
    assert "verifier +0.0 points" in said


def test_outcomes_read_from_the_reward_are_no_verifier() -> None:
    rows = [VerdictRow(step=step, rewards=10, reward_sum=step, scored=10, success=5, by_verifier=0) for step in range(1, 13)]
    assert found(healthy(verdicts=rows))["reward without verifier"].state == NO_DATA


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"attempt_seconds": 90.0, "env_seconds": 80.0, "policy_seconds": 10.0},
            "waiting for the world in train, step 3 (train/train/3/textcraft_1/0)",
        ),
        (
            {"attempt_seconds": 90.0, "env_seconds": 10.0, "policy_seconds": 80.0},
            "waiting for the policy in train, step 3 (train/train/3/textcraft_1/0)",
        ),
        ({"before_phase": "eval_before"}, "between eval_before and train"),
        ({"before_step": 2}, "in the update between steps 2 and 3 of train"),
        ({}, "between two attempts of train, step 3"),
    ],
)
def test_a_stall_names_the_phase_that_caused_it(changes: dict[str, object], words: str) -> None:
    assert waited_for(make_gap(100.0, **changes)) == words


def test_findings_come_first_and_carry_query_threshold_and_advice() -> None:
    first = diagnose(FIRES["KL"], "it's")[0]
    assert (first.rule, first.state) == ("KL", FOUND)
    assert first.said == "at most 0.11 nats a token, at step 12; above 0.1 at 1 of 12 steps"
    assert "run = 'it''s'" in first.rows
    assert first.threshold and first.advice


def test_queries_of_rules_are_sql_that_the_store_can_answer(store: Connection) -> None:
    for finding in diagnose(healthy(), "r1"):
        rows_of(store, finding.rows)


def looping_run() -> list[Record]:
    """Two training episodes of step 3, sampled by the weights of step 0; the first sends one action four times, the second three times."""
    records: list[Record] = [make_run(), make_segment()]
    for number, actions in enumerate(["aaaab", "aaabaaa"]):
        scheduled = make_scheduled(number, phase="train", split="train", step=3, horizon=8)
        turns = tuple(make_turn(place, action=action) for place, action in enumerate(actions, start=1))
        sampled = replace(make_attempt(scheduled, "failure"), turns=turns, turns_count=len(turns), policy_version=0, action_tokens=50)
        reached = {"run_turns": 5 + 7 * number, "run_tokens_read": 0, "run_tokens_sampled": 50 * (number + 1), "run_seconds": 10.0 + 90.0 * number}
        attempt = replace(sampled, **reached)  # type: ignore[arg-type]
        records += [scheduled, attempt, make_outcome(attempt)]
    return records


def test_an_attempt_made_again_after_a_resume_does_not_repeat_itself(store: Connection, tmp_path: Path) -> None:
    segments = []
    for segment, resumed in ((1, None), (2, 0)):
        scheduled = make_scheduled(0, segment=segment, phase="train", split="train", step=3)
        turns = tuple(make_turn(place, action=action) for place, action in enumerate("aab", start=1))
        attempt = replace(make_attempt(scheduled, "failure"), turns=turns, turns_count=len(turns))
        segments.append([*([make_run()] if segment == 1 else []), make_segment(segment, resumed), scheduled, attempt, make_outcome(attempt)])
    report_of(store, tmp_path / "r1", *segments)
    assert diagnosis_queries.loops(store, "r1") == LoopRow(attempts=1, looping=0, example=None)


def test_the_store_counts_what_rules_ask(store: Connection, tmp_path: Path) -> None:
    load_into(store, write_journal(tmp_path / "r1", looping_run()))
    assert diagnosis_queries.loops(store, "r1") == LoopRow(attempts=2, looping=1, example="train/train/3/textcraft_0/0")
    assert diagnosis_queries.ages(store, "r1") == [AgeRow(age=2, tokens=100)]
    assert diagnosis_queries.cuts(store, "r1") == [CutRow(phase="train", horizon=8, scheduled=2, truncated=2)]
    assert diagnosis_queries.axis(store, "r1") == [AxisRow(step=3, turns=12, tokens=100, seconds=100.0)]
    (gap,) = diagnosis_queries.gaps(store, "r1")
    assert (gap.seconds, gap.typical, gap.phase, gap.step, gap.episode) == (90.0, 90.0, "train", 3, "train/train/3/textcraft_1/0")
